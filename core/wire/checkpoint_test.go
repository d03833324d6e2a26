package wire_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

func TestCheckpointKeepsTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.Inc, s.Seq = "01JQ3ZC5T8Q9V4M7R2X6W1Y0KD", s.Seq&(1<<62)
		data, err := wire.EncodeCheckpoint(s)
		require.NoError(t, err)
		got, err := wire.DecodeCheckpoint(data, s.Inc, s.Seq)
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.Equal(t, wire.StateSum(s), wire.StateSum(got))

		again, err := wire.EncodeCheckpoint(got)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	})
}

func TestCheckpointOfNothing(t *testing.T) {
	t.Parallel()
	data, err := wire.EncodeCheckpoint(session.State{})
	require.NoError(t, err)
	got, err := wire.DecodeCheckpoint(data, "", 0)
	require.NoError(t, err)
	require.Equal(t, session.State{}, got)
}

// Nothing that is not stored may matter: a state read by encoding/json, by its
// tags, is the same.
func TestCheckpointBodyIsWhatTheTagsSay(t *testing.T) {
	t.Parallel()
	s := *fullState()
	data, err := wire.EncodeCheckpoint(s)
	require.NoError(t, err)
	_, body, _ := bytes.Cut(data, []byte("\n"))
	var got session.State
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	require.Equal(t, s, got)
}

func TestAnyDoubtAboutACheckpointIsToldAndNothingElse(t *testing.T) {
	t.Parallel()
	s := *fullState()
	s.Inc, s.Seq = "inc1", 40
	good, err := wire.EncodeCheckpoint(s)
	require.NoError(t, err)
	head, body, _ := strings.Cut(string(good), "\n")
	reframe := func(body string) string {
		size, sum := strconv.Itoa(len(good)-len(head)-1), blob.Sum(good[len(head)+1:]).Hex()
		h := strings.Replace(head, `"bytes":`+size, `"bytes":`+strconv.Itoa(len(body)), 1)
		return strings.Replace(h, sum, blob.Sum([]byte(body)).Hex(), 1) + "\n" + body
	}
	require.Equal(t, string(good), reframe(body))
	edit := func(old, with string) string {
		require.Contains(t, head, old)
		return strings.Replace(head, old, with, 1) + "\n" + body
	}
	for name, c := range map[string]struct {
		data string
		inc  string
		seq  ident.Seq
	}{
		"Empty":                 {"", "inc1", 40},
		"No header":             {body, "inc1", 40},
		"Header alone":          {head, "inc1", 40},
		"No body":               {head + "\n", "inc1", 40},
		"Long header":           {`{"format":1,"inc":"` + strings.Repeat("x", 2000) + "\n" + body, "inc1", 40},
		"Newer format":          {edit(`"format":1`, `"format":2`), "inc1", 40},
		"Header with more":      {edit(`}`, `} `), "inc1", 40},
		"Header misses a field": {edit(`"seq":40,`, ``), "inc1", 40},
		"Other shape":           {edit(`"shape":"`, `"shape":"0`), "inc1", 40},
		"Other incarnation":     {string(good), "inc2", 40},
		"Other position":        {string(good), "inc1", 41},
		"Body of another":       {reframe(strings.Replace(body, `"seq":40`, `"seq":41`, 1)), "inc1", 40},
		"Body of another inc":   {reframe(strings.Replace(body, `"inc":"inc1"`, `"inc":"inc2"`, 1)), "inc1", 40},
		"Body with a new field": {reframe(`{"new":1,` + body[1:]), "inc1", 40},
		"Body with more":        {reframe(body + "}"), "inc1", 40},
		"Body misses a field":   {reframe(strings.Replace(body, `"openedAt":`, `"openedOn":`, 1)), "inc1", 40},
		"A bit":                 {head + "\n" + body[:50] + "~" + body[51:], "inc1", 40},
		"Cut off":               {string(good[:len(good)-1]), "inc1", 40},
		"One byte more":         {string(good) + "\n", "inc1", 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.DecodeCheckpoint([]byte(c.data), c.inc, c.seq)
			require.ErrorIs(t, err, wire.ErrCheckpoint)
			var d *session.Divergence
			require.NotErrorAs(t, err, &d, "a checkpoint is a cache: no session is quarantined for it")
			require.NotErrorIs(t, err, session.ErrNewer)
		})
	}
}

func TestCheckpointRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	_, err := wire.EncodeCheckpoint(session.State{Status: "a\xff"})
	require.ErrorIs(t, err, wire.ErrUnencodable)
	_, err = wire.EncodeCheckpoint(session.State{Inc: strings.Repeat("x", 2000)})
	require.ErrorIs(t, err, wire.ErrUnencodable)
}
