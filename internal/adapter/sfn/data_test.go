package sfn_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
)

const inc = "01J00000000000000000000001"

var key = host.Key{Tenant: "default", Session: "s"}

// most is the largest number that may be in machine data.
const most = 1<<53 - 1

func step() host.Step { return host.Step{Key: key, Inc: inc, Epoch: 3, Number: 1} }

func TestTheInputOfAnActivationIsAlwaysTheSameBytes(t *testing.T) {
	t.Parallel()
	for range 3 {
		got, err := sfn.Input(key, inc, 3)
		require.NoError(t, err)
		require.Equal(t, `{"v":1,"tenant":"default","session":"s","inc":"01J00000000000000000000001","epoch":3,"step":1}`, string(got))
	}
}

func TestAnAnswerSaysWhatFollows(t *testing.T) {
	t.Parallel()
	const head = `{"v":1,"tenant":"default","session":"s","inc":"01J00000000000000000000001","epoch":3,"step":`
	call := host.CallRef{Run: 1, Call: ident.CallID{Turn: 2, Index: 1}, Attempt: 1}
	wait := host.Wait{Rev: 17, Number: 1, Attempt: 1, Until: 1_700_000_000_000}
	for _, c := range []struct {
		name string
		next host.Next
		want string
	}{
		{"again", host.Next{Do: host.NextAgain, Number: 2}, head + `2,"next":"again"}`},
		{"done", host.Next{Do: host.NextDone, Number: 2}, head + `2,"next":"done"}`},
		{"done without a number", host.Next{Do: host.NextDone}, head + `1,"next":"done"}`},
		{"tools", host.Next{Do: host.NextTools, Number: 2, Calls: []host.CallRef{call}}, head + `2,"next":"tools","calls":[{"run":1,"call":"call_2_1","attempt":1}]}`},
		{"wait", host.Next{Do: host.NextWait, Number: 2, Wait: wait}, head + `2,"next":"wait","wait":{"rev":17,"number":1,"attempt":1,"until":1700000000000,"seconds":86401}}`},
	} {
		got, err := sfn.Answer(step(), c.next, wait.Until.Add(-86_400_000))
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, string(got), c.name)
	}
	for name, next := range map[string]host.Next{
		"no number":        {Do: host.NextAgain},
		"an unknown word":  {Do: "rest", Number: 2},
		"tools without":    {Do: host.NextTools, Number: 2},
		"nine calls":       {Do: host.NextTools, Number: 2, Calls: make([]host.CallRef, 9)},
		"an unnamed call":  {Do: host.NextTools, Number: 2, Calls: make([]host.CallRef, 1)},
		"a wait on rev 0":  {Do: host.NextWait, Number: 2, Wait: host.Wait{Number: 1, Attempt: 1}},
		"a wait unclaimed": {Do: host.NextWait, Number: 2, Wait: host.Wait{Rev: 1}},
	} {
		_, err := sfn.Answer(step(), next, 1)
		require.ErrorIs(t, err, sfn.ErrData, name)
	}
}

func TestAWaitEndsAtTheFirstFullSecondAfterItsDeadline(t *testing.T) {
	t.Parallel()
	const now = ident.Instant(1_000_000)
	for until, want := range map[ident.Instant]int64{
		0: 2_592_000, now: 1, now - 1: 1, 1: 1, now + 1: 2, now + 999: 2, now + 1000: 2, now + 1001: 3,
		now + 86_400_000: 86_401, now + 365*86_400_000: 2_592_000, most: 2_592_000,
	} {
		raw, err := sfn.Answer(step(), host.Next{Do: host.NextWait, Number: 2, Wait: host.Wait{Rev: 1, Number: 1, Attempt: 1, Until: until}}, now)
		require.NoError(t, err)
		d, err := sfn.Decode(raw)
		require.NoError(t, err)
		require.Equal(t, want, d.Wait.Seconds, "until %d", until)
		require.Equal(t, int64(until), d.Wait.Until)
	}
}

// TestMachineDataIsSmallWhateverASessionHolds computes the largest data there
// can be, by making each field as long as its bound allows.
func TestMachineDataIsSmallWhateverASessionHolds(t *testing.T) {
	t.Parallel()
	long := host.Step{
		Key: host.Key{Tenant: ident.TenantID(strings.Repeat("t", ident.MaxBytes)), Session: ident.SessionID(strings.Repeat("s", ident.MaxBytes))},
		Inc: strings.Repeat("I", 63), Epoch: most, Number: most,
	}
	var calls []host.CallRef
	for range session.InFlightMax {
		calls = append(calls, host.CallRef{Run: most, Call: ident.CallID{Turn: most, Index: 1 << 20}, Attempt: 1 << 20})
	}
	tools, err := sfn.Answer(long, host.Next{Do: host.NextTools, Number: most, Calls: calls}, 1)
	require.NoError(t, err)
	wait, err := sfn.Answer(long, host.Next{Do: host.NextWait, Number: most, Wait: host.Wait{Rev: most, Number: most, Attempt: 1 << 20, Until: most}}, 1)
	require.NoError(t, err)

	// The machine wraps it for a function: the longest token and words of the
	// definition come on top.
	park := fmt.Sprintf(`{"data":%s,"token":"%s"}`, wait, strings.Repeat("T", 2048))
	drive := fmt.Sprintf(`{"data":%s,"began":"2026-11-30T12:00:00.000Z","recover":true}`, tools)
	for name, raw := range map[string]string{"tools": string(tools), "wait": string(wait), "park": park, "drive": drive} {
		require.Less(t, len(raw), sfn.DataBytesMax, name)
		t.Logf("%s: at most %d bytes", name, len(raw))
	}

	// One more of anything is refused, so there is no larger.
	over := long
	over.Inc += "I"
	_, err = sfn.Answer(over, host.Next{Do: host.NextAgain, Number: 2}, 1)
	require.ErrorIs(t, err, sfn.ErrData)
	_, err = sfn.Answer(long, host.Next{Do: host.NextTools, Number: 2, Calls: append(calls, calls[0])}, 1)
	require.ErrorIs(t, err, sfn.ErrData)
	_, err = sfn.Answer(long, host.Next{Do: host.NextAgain, Number: most + 1}, 1)
	require.ErrorIs(t, err, sfn.ErrData)
}

func TestEventsOfTheMachine(t *testing.T) {
	t.Parallel()
	input, err := sfn.Input(key, inc, 3)
	require.NoError(t, err)
	want := step()
	want.Began = 1_764_504_000_123

	got, err := sfn.DriveEvent(fmt.Appendf(nil, `{"data":%s,"began":"2025-11-30T12:00:00.123Z"}`, input))
	require.NoError(t, err)
	require.Equal(t, want, got)
	want.Recover = true
	got, err = sfn.DriveEvent(fmt.Appendf(nil, `{"data":%s,"began":"2025-11-30T12:00:00.123Z","recover":true}`, input))
	require.NoError(t, err)
	require.Equal(t, want, got)

	plan := host.Wait{Rev: 17, Number: 1, Attempt: 2, Until: 1_764_504_100_000}
	wait, err := sfn.Answer(step(), host.Next{Do: host.NextWait, Number: 2, Wait: plan}, 1_764_504_000_000)
	require.NoError(t, err)
	parking, err := sfn.ParkEvent(fmt.Appendf(nil, `{"data":%s,"token":"AAAA="}`, wait))
	require.NoError(t, err)
	require.Equal(t, sfn.Parking{Key: key, Inc: inc, Epoch: 3, Wait: plan, Token: "AAAA="}, parking)

	ref := host.CallRef{Run: 4, Call: ident.CallID{Turn: 2, Index: 7}, Attempt: 3}
	at, gotRef, err := sfn.ToolEvent([]byte(`{"v":1,"tenant":"default","session":"s","inc":"01J00000000000000000000001","epoch":3,"step":2,"call":{"run":4,"call":"call_2_7","attempt":3}}`))
	require.NoError(t, err)
	require.Equal(t, host.Step{Key: key, Inc: inc, Epoch: 3, Number: 2}, at)
	require.Equal(t, ref, gotRef)

	// After Tools and Wait the machine sends the whole of what the slice said.
	_, err = sfn.DriveEvent(fmt.Appendf(nil, `{"data":%s,"began":"2025-11-30T12:00:00Z"}`, wait))
	require.NoError(t, err)
}

func TestDataOfANewerBuildIsNotDamage(t *testing.T) {
	t.Parallel()
	const newer = `{"v":2,"what":"ever","epoch":"three"}`
	for name, err := range map[string]error{
		"data":  second(sfn.Decode([]byte(newer))),
		"drive": second(sfn.DriveEvent([]byte(`{"data":` + newer + `,"since":1}`))),
		"park":  second(sfn.ParkEvent([]byte(`{"data":` + newer + `,"token":1}`))),
		"tool":  third(sfn.ToolEvent([]byte(newer))),
	} {
		require.ErrorIs(t, err, session.ErrNewer, name)
		require.NotErrorIs(t, err, sfn.ErrData, name)
		require.ErrorContains(t, err, "version 2, this build knows up to 1", name)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

func TestWhatNoBuildHasWrittenIsRefused(t *testing.T) {
	t.Parallel()
	good, err := sfn.Input(key, inc, 3)
	require.NoError(t, err)
	change := func(old, with string) string {
		out := strings.Replace(string(good), old, with, 1)
		require.NotEqual(t, string(good), out)
		return out
	}
	for name, raw := range map[string]string{
		"nothing":             "",
		"null":                "null",
		"a list":              "[]",
		"something after":     string(good) + "{}",
		"an unknown field":    change(`"v":1`, `"v":1,"text":"hello"`),
		"version 0":           change(`"v":1`, `"v":0`),
		"no tenant":           change(`"tenant":"default",`, ``),
		"another's tenant":    change(`"default"`, `"a#b"`),
		"a long tenant":       change(`"default"`, `"`+strings.Repeat("t", 129)+`"`),
		"a path as session":   change(`"session":"s"`, `"session":"../s"`),
		"no incarnation":      change(inc, ``),
		"a wild incarnation":  change(inc, `01J*`),
		"a long incarnation":  change(inc, strings.Repeat("I", 79)),
		"epoch 0":             change(`"epoch":3`, `"epoch":0`),
		"an endless epoch":    change(`"epoch":3`, `"epoch":9007199254740993`),
		"half an epoch":       change(`"epoch":3`, `"epoch":0.5`),
		"a negative step":     change(`"step":1`, `"step":-1`),
		"calls with again":    change(`"step":1`, `"step":1,"next":"again","calls":[{"run":1,"call":"call_1_1","attempt":1}]`),
		"a wait with done":    change(`"step":1`, `"step":1,"next":"done","wait":{"rev":1,"number":1,"attempt":1,"seconds":1}`),
		"a wait of 0 seconds": change(`"step":1`, `"step":1,"next":"wait","wait":{"rev":1,"number":1,"attempt":1,"seconds":0}`),
		"a wait of years":     change(`"step":1`, `"step":1,"next":"wait","wait":{"rev":1,"number":1,"attempt":1,"seconds":99999999}`),
		"a call of nothing":   change(`"step":1`, `"step":1,"next":"tools","calls":[{"run":1,"call":"call_0_1","attempt":1}]`),
		"attempt 0":           change(`"step":1`, `"step":1,"next":"tools","calls":[{"run":1,"call":"call_1_1","attempt":0}]`),
	} {
		_, err := sfn.Decode([]byte(raw))
		require.ErrorIs(t, err, sfn.ErrData, name)
	}
	for name, err := range map[string]error{
		"no start":       second(sfn.DriveEvent(fmt.Appendf(nil, `{"data":%s}`, good))),
		"no data":        second(sfn.DriveEvent([]byte(`{"began":"2026-11-30T12:00:00Z"}`))),
		"no wait":        second(sfn.ParkEvent(fmt.Appendf(nil, `{"data":%s,"token":"t"}`, good))),
		"a long token":   second(sfn.ParkEvent(fmt.Appendf(nil, `{"data":%s,"token":"%s"}`, change(`"step":1`, `"step":1,"next":"wait","wait":{"rev":1,"number":1,"attempt":1,"seconds":1}`), strings.Repeat("T", 2049)))),
		"tool, no call":  third(sfn.ToolEvent(good)),
		"tool, and more": third(sfn.ToolEvent([]byte(change(`"step":1`, `"step":1,"call":{"run":1,"call":"call_1_1","attempt":1,"x":1}`)))),
	} {
		require.ErrorIs(t, err, sfn.ErrData, name)
	}
}

// FuzzDecode: what is accepted is within its bounds and reads the same again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"tenant":"default","session":"s","inc":"01J","epoch":3,"step":1}`))
	f.Add([]byte(`{"v":1,"tenant":"t","session":"s","inc":"I","epoch":3,"step":2,"next":"tools","calls":[{"run":1,"call":"call_2_1","attempt":1}]}`))
	f.Add([]byte(`{"v":1,"tenant":"t","session":"s","inc":"I","epoch":3,"step":2,"next":"wait","wait":{"rev":1,"number":1,"attempt":1,"until":5,"seconds":9}}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := sfn.Decode(raw)
		if err != nil {
			return
		}
		out, err := json.Marshal(d)
		require.NoError(t, err)
		require.Less(t, len(out), sfn.DataBytesMax)
		again, err := sfn.Decode(out)
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
