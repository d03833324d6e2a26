package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// Whatever bytes a store gives back, decoding says what they are or refuses
// them; and what it accepts is JSON that any reader reads the same, and that is
// written again as it was.
func FuzzDecode(f *testing.F) {
	for _, zero := range session.Kinds() {
		for _, e := range []session.Event{zero, sample(zero)} {
			line, err := wire.Encode(session.Entry{Seq: 1, At: 1, Event: e})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(line)
		}
	}
	f.Add([]byte(started))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		entry, err := wire.Decode(line)
		require.Equal(t, before, line, "the bytes are the store's")
		if err != nil {
			require.Zero(t, entry)
			return
		}
		h, err := wire.DecodeHeader(line)
		require.NoError(t, err)
		require.Equal(t, h.Kind, entry.Event.Kind())
		again, err := wire.Encode(entry)
		require.NoError(t, err)
		require.Equal(t, string(line), string(again))

		other := reflect.New(reflect.TypeOf(entry.Event).Elem())
		require.NoError(t, json.Unmarshal(line[h.Data:len(line)-1], other.Interface()))
		unpoint(other.Elem())
		require.Equal(t, entry.Event, other.Interface())
	})
}

// The hash would keep a fuzzer out of the body, so it is given a frame that
// fits, too.
func FuzzCheckpoint(f *testing.F) {
	full := *stateWith(1)
	full.Inc, full.Seq = "inc1", 40
	for _, s := range []session.State{{}, full, {Inc: "inc1", Seq: 40}, window(2)} {
		data, err := wire.EncodeCheckpoint(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		_, body, _ := bytes.Cut(data, []byte("\n"))
		f.Add(body)
	}
	empty, err := wire.EncodeCheckpoint(session.State{Inc: "inc1", Seq: 40})
	if err != nil {
		f.Fatal(err)
	}
	head, body, _ := bytes.Cut(empty, []byte("\n"))
	size, sum := fmt.Appendf(nil, `"bytes":%d`, len(body)), []byte(blob.Sum(body).Hex())
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := wire.DecodeCheckpoint(data, "inc1", 40)
		if err != nil {
			require.ErrorIs(t, err, wire.ErrCheckpoint)
		}
		framed := bytes.Replace(head, size, fmt.Appendf(nil, `"bytes":%d`, len(data)), 1)
		framed = bytes.Replace(framed, sum, []byte(blob.Sum(data).Hex()), 1)
		framed = append(append(framed, '\n'), data...)
		s, err := wire.DecodeCheckpoint(framed, "inc1", 40)
		if err != nil {
			require.ErrorIs(t, err, wire.ErrCheckpoint)
			return
		}
		again, err := wire.EncodeCheckpoint(s)
		require.NoError(t, err)
		require.Equal(t, string(framed), string(again))
	})
}
