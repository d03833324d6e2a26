package wakemodel_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/host/wakemodel"
)

// large explores further: minutes, and some gigabytes.
var large = flag.Bool("wake.large", false, "explore the wake protocol with more commands and faults")

var sessions = map[string]wakemodel.Session{
	"it comes to rest":                  {},
	"it waits":                          {Waits: true},
	"it waits, and there is a deadline": {Waits: true, Deadline: true},
}

// noted is a violation as a person reads it.
func noted(v wakemodel.Violation) string {
	return v.What + ":\n  " + strings.Join(v.Trace, "\n  ")
}

func requireHolds(t *testing.T, p wakemodel.Protocol, start wakemodel.Start) {
	t.Helper()
	r := p.Explore(start)
	for _, v := range r.Violations {
		t.Error(noted(v))
	}
	require.False(t, r.Cut, "there are more than %d states", r.States)
	t.Logf("%d states", r.States)
}

//nolint:paralleltest // one after the other, because each may take some hundred megabytes
func TestNoWakeUpIsLost(t *testing.T) {
	starts := []wakemodel.Start{
		{Admitters: 2, Commands: 2, Sweepers: 1, Faults: 1},
		{Admitters: 1, Commands: 2, Sweepers: 1, Faults: 1, Rollovers: 1},
		{Admitters: 1, Commands: 1, Sweepers: 1, Faults: 2},
		{Admitters: 1, Commands: 1, Sweepers: 2, Faults: 1},
	}
	if *large {
		starts = append(starts,
			wakemodel.Start{Admitters: 2, Commands: 2, Sweepers: 1, Faults: 1, Rollovers: 1},
			wakemodel.Start{Admitters: 3, Commands: 3, Sweepers: 1, Faults: 1},
			wakemodel.Start{Admitters: 2, Commands: 2, Sweepers: 2, Faults: 1, Rollovers: 1},
			wakemodel.Start{Admitters: 2, Commands: 2, Sweepers: 1, Faults: 2},
			wakemodel.Start{Admitters: 1, Commands: 2, Sweepers: 1, Faults: 3, Rollovers: 1},
		)
	}
	for _, start := range starts {
		for name, session := range sessions {
			start.Session = session
			t.Run(fmt.Sprintf("%s, %d commands, %d sweeps, %d faults, %d rollovers", name, start.Commands, start.Sweepers, start.Faults, start.Rollovers), func(t *testing.T) {
				requireHolds(t, 0, start)
			})
		}
	}
}

// TestTheSweepIsForFaultsAlone: while nothing goes wrong every wake-up comes at
// once, and nobody waits for the sweep.
func TestTheSweepIsForFaultsAlone(t *testing.T) {
	t.Parallel()
	for name, session := range sessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireHolds(t, 0, wakemodel.Start{Session: session, Admitters: 2, Commands: 3, Rollovers: 1})
		})
	}
	// The model can tell: where something does go wrong, it takes a sweep.
	r := wakemodel.Protocol(0).Explore(wakemodel.Start{Admitters: 1, Commands: 1, Faults: 1})
	require.Equal(t, []string{wakemodel.Stuck}, kinds(r))
}

func kinds(r wakemodel.Result) (out []string) {
	for _, v := range r.Violations {
		out = append(out, v.What)
	}
	return out
}

// TestTheDesignsBeforeFail shows that the model finds what was wrong with the
// two designs that this protocol replaced.
func TestTheDesignsBeforeFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		p      wakemodel.Protocol
		want   []string
		faults int
	}{
		{"design A pays twice, and without a fault", wakemodel.DesignA, []string{wakemodel.LiveDriverFenced}, 0},
		{"design A runs two effects at once", wakemodel.DesignA, []string{wakemodel.LiveDriverFenced, wakemodel.TwoEffects}, 1},
		{"design B loses a wake-up", wakemodel.DesignB, []string{wakemodel.Stuck, wakemodel.TwoEffects}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := c.p.Explore(wakemodel.Start{Admitters: 2, Commands: 2, Sweepers: 1, Faults: c.faults})
			require.False(t, r.Cut)
			for _, v := range r.Violations {
				require.NotEmpty(t, v.Trace)
				t.Log(noted(v))
			}
			require.Subset(t, kinds(r), c.want)
		})
	}
}

// TestEachRuleIsNeeded takes one rule away at a time.
func TestEachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	rests, waits, deadline := wakemodel.Session{}, wakemodel.Session{Waits: true}, wakemodel.Session{Waits: true, Deadline: true}
	for _, c := range []struct {
		name    string
		p       wakemodel.Protocol
		session wakemodel.Session
		faults  int
		alone   bool // without the sweep
		want    string
	}{
		{"claims", wakemodel.WithoutClaims, rests, 1, false, wakemodel.TwoEffects},
		{"who is displaced asks for the next step", wakemodel.DisplacedEnds, rests, 1, false, wakemodel.LiveDriverFenced},
		{"park compares the head", wakemodel.ParksBlindly, waits, 0, false, wakemodel.Stuck},
		{"park that is refused completes its token", wakemodel.ParksSilently, waits, 0, false, wakemodel.Stuck},
		{"a start is due", wakemodel.StartsUnseen, rests, 1, false, wakemodel.Stuck},
		{"a wake is due", wakemodel.WakesUnseen, waits, 1, false, wakemodel.Stuck},
		{"a claim is due", wakemodel.ClaimsUnseen, rests, 1, false, wakemodel.Stuck},
		{"a deadline is due", wakemodel.ParksUnseen, deadline, 1, false, wakemodel.Stuck},
		{"a wait ends with its deadline", wakemodel.WaitsForever, deadline, 0, true, wakemodel.Stuck},
		{"a closed name is not taken for one that runs", wakemodel.ClosedRuns, rests, 1, false, wakemodel.Stuck},
		{"the sweep asks before it gives up", wakemodel.SweepsBlindly, rests, 0, false, wakemodel.LiveDriverFenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := wakemodel.Start{Session: c.session, Admitters: 2, Commands: 2, Sweepers: 1, Faults: c.faults}
			if c.alone {
				start.Sweepers = 0
			}
			r := c.p.Explore(start)
			require.Contains(t, kinds(r), c.want)
			require.Empty(t, kinds(wakemodel.Protocol(0).Explore(start)), "it is this rule that does it")
		})
	}
	// The deadline of a wait is held twice, by the machine and by the sweep:
	// either is enough while nothing else goes wrong.
	for _, p := range []wakemodel.Protocol{wakemodel.WaitsForever, wakemodel.ParksUnseen} {
		requireHolds(t, p, wakemodel.Start{Session: deadline, Admitters: 2, Commands: 2, Sweepers: 1})
	}
	r := (wakemodel.WaitsForever | wakemodel.ParksUnseen).Explore(wakemodel.Start{Session: deadline, Admitters: 1, Commands: 1, Sweepers: 1})
	require.Equal(t, []string{wakemodel.Stuck}, kinds(r))
}
