package wire_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// What the page shows is what the code does.
func TestReadmeIsTrue(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	page := string(data)
	_, err = wire.Decode([]byte(started))
	require.NoError(t, err)
	require.Equal(t, 399360, wire.LineMax)
	for _, said := range []string{
		"\n" + started + "\n", "399,360", wire.CodeMalformed,
		wire.Begin("t").Sum(), wire.Begin("t").Str("hello").Sum(), wire.Begin("t").Bool(true).Bool(false).Sum(),
	} {
		require.Contains(t, page, said)
	}
	sources, err := os.ReadFile("submission.go")
	require.NoError(t, err)
	for _, piece := range strings.Split(string(sources), `Begin("`)[1:] {
		tag, _, _ := strings.Cut(piece, `"`)
		require.Contains(t, page, "| `"+tag+"` |")
	}
}

// A payload by reference is known by its fields alone, so nothing else may have
// just those.
func TestNothingElseLooksLikeAReference(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		switch {
		case typ == reflect.TypeFor[blob.Payload]() || seen[typ]:
		case typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice:
			look(typ.Elem())
		case typ.Kind() == reflect.Struct:
			seen[typ] = true
			var required, all []string
			for _, f := range reflect.VisibleFields(typ) {
				if name, flags, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
					all = append(all, name)
					if flags == "" {
						required = append(required, name)
					}
				}
				if f.IsExported() {
					look(f.Type)
				}
			}
			others := slices.ContainsFunc(required, func(n string) bool { return n != "ref" && n != "size" })
			looks := slices.Contains(all, "ref") && slices.Contains(all, "size") && !others
			require.False(t, looks, typ.String())
		}
	}
	for _, zero := range session.Kinds() {
		look(reflect.TypeOf(zero))
	}
	require.Greater(t, len(seen), len(session.Kinds()))
}
