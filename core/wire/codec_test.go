package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
)

// A kind with a past: version 1 had a song, version 2 said whether it was loud,
// version 3 says how loud in decibel.
type (
	sung struct {
		session.Event // whatever: it makes this an event

		Song    string
		Decibel int64
	}
	sungV2 struct {
		Song string
		Loud bool
	}
	sungV1 struct{ Song string }
)

func (*sung) Kind() session.Kind { return "test.sung" }

func withPast() Codec {
	return Codec{forms: []form{
		{
			kind: "test.sung", version: 1,
			blank: func() any { return &sungV1{} },
			walk: func(v visitor, e any) bool {
				v.str(`"song":`, &e.(*sungV1).Song, must)
				return true
			},
			up: func(e any) any { return &sungV2{Song: e.(*sungV1).Song} },
		},
		{
			kind: "test.sung", version: 2,
			blank: func() any { return &sungV2{} },
			walk: func(v visitor, e any) bool {
				v.str(`"song":`, &e.(*sungV2).Song, must)
				v.boolean(`"loud":`, &e.(*sungV2).Loud, opt)
				return true
			},
			up: func(e any) any {
				old := e.(*sungV2)
				if old.Loud {
					return &sung{Song: old.Song, Decibel: 100}
				}
				return &sung{Song: old.Song, Decibel: 60}
			},
		},
		{
			kind: "test.sung", version: 3,
			blank: func() any { return &sung{} },
			walk: func(v visitor, e any) bool {
				v.str(`"song":`, &e.(*sung).Song, must)
				v.int64(`"decibel":`, &e.(*sung).Decibel, must)
				return true
			},
		},
	}}
}

func TestOlderVersionsAreReadAsTheLatest(t *testing.T) {
	t.Parallel()
	c := withPast()
	line := func(rest string) string { return `{"seq":4,"at":9,"kind":"test.sung",` + rest + `}` }
	for name, test := range map[string]struct {
		line string
		want *sung
	}{
		"First":       {line(`"v":1,"data":{"song":"ut"}`), &sung{Song: "ut", Decibel: 60}},
		"Second":      {line(`"v":2,"data":{"song":"ut"}`), &sung{Song: "ut", Decibel: 60}},
		"Second loud": {line(`"v":2,"data":{"song":"ut","loud":true}`), &sung{Song: "ut", Decibel: 100}},
		"Third":       {line(`"v":3,"data":{"song":"ut","decibel":61}`), &sung{Song: "ut", Decibel: 61}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Decode([]byte(test.line))
			require.NoError(t, err)
			require.Equal(t, session.Entry{Seq: 4, At: 9, Event: test.want}, got)
		})
	}

	// Each version is read by its own rules.
	_, err := c.Decode([]byte(line(`"v":1,"data":{"song":"ut","loud":true}`)))
	require.ErrorIs(t, err, ErrMalformed)
	_, err = c.Decode([]byte(line(`"v":4,"data":{"song":"ut"}`)))
	require.ErrorIs(t, err, session.ErrNewer)
	_, err = Decode([]byte(line(`"v":1,"data":{"song":"ut"}`)))
	require.ErrorIs(t, err, session.ErrNewer)
}

func TestTheLatestVersionIsWritten(t *testing.T) {
	t.Parallel()
	got, err := withPast().Encode(session.Entry{Seq: 4, At: 9, Event: &sung{Song: "ut", Decibel: 61}})
	require.NoError(t, err)
	want := `{"seq":4,"at":9,"kind":"test.sung","v":3,"data":{"song":"ut","decibel":61}}`
	require.Equal(t, want, string(got))

	_, err = Encode(session.Entry{Seq: 4, At: 9, Event: &sung{}})
	require.ErrorIs(t, err, ErrUnencodable)
}

func TestABrokenChainIsNoEvent(t *testing.T) {
	t.Parallel()
	c := withPast()
	c.forms = append(c.forms[:1:1], c.forms[2:]...)
	_, err := c.Decode([]byte(`{"seq":4,"at":9,"kind":"test.sung","v":1,"data":{"song":"ut"}}`))
	require.ErrorIs(t, err, ErrMalformed)
}

// What is in the tables of this build leads up to the latest version, without
// a hole, and every event belongs to its kind.
func TestEveryVersionOfEveryKindIsReadable(t *testing.T) {
	t.Parallel()
	for _, zero := range session.Kinds() {
		kind := zero.Kind()
		require.LessOrEqual(t, len(kind), KindMax)
		require.Empty(t, strings.Trim(string(kind), "abcdefghijklmnopqrstuvwxyz._"))
		latest := version(kind)
		for v := 1; v <= latest; v++ {
			f, value, ok := Codec{}.form(kind, v)
			require.True(t, ok, "%s version %d", kind, v)
			require.Equal(t, v == latest, f.up == nil)
			if v == latest {
				require.IsType(t, zero, value)
			}
		}
	}
	for _, f := range older() {
		require.Less(t, f.version, version(f.kind))
	}
}
