package dynamo_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// play writes commits as the host makes them on AWS. Its texts are noise, which
// deflates worse than any text of people or programs: the count is on the safe
// side.
type play struct {
	*script
	now ident.Instant
	rnd *rand.Rand
}

func newPlay(t *testing.T) *play {
	t.Helper()
	return &play{script: newScript(t), now: 1_796_043_871_945, rnd: rand.New(rand.NewPCG(1, 2))}
}

// hex is n digits that nobody has seen before.
func (p *play) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[p.rnd.IntN(16)]
	}
	return string(b)
}

// write commits events of these kinds and data, and what edit adds.
func (p *play) write(drive string, due ident.Instant, edit func(c *host.Commit), events ...string) {
	p.t.Helper()
	p.now += 1234
	require.NoError(p.t, p.commit(nil, func(c *host.Commit) {
		// As long as real ones are.
		c.Head.Write = strings.Repeat("0123456789abcdef", 2)[:32-len(c.Head.Write)] + c.Head.Write
		c.Head.At, c.Head.DueAt = p.now, due
		c.Head.Drive = host.Drive{Epoch: 3, Step: 1, Attempt: 1, Status: drive}
		for _, e := range events {
			c.Head.Seq++
			kind, data, _ := strings.Cut(e, " ")
			c.Entries = append(c.Entries, host.StoredEntry{
				Seq:  c.Head.Seq,
				Data: fmt.Appendf(nil, `{"seq":%d,"at":%d,"kind":%q,"v":1,"data":%s}`, c.Head.Seq, p.now, kind, data),
			})
		}
		if edit != nil {
			edit(c)
		}
	}))
}

func (p *play) meta(activity string) *host.Meta {
	return &host.Meta{
		Title: p.hex(70), Status: host.StatusOpen, Activity: activity, Metadata: map[string]string{"channel": "C0123456789"},
		CreatedAt: 1_796_043_871_945, UpdatedAt: p.now, Model: "claude-sonnet-4-5",
	}
}

const (
	turnRequested = `turn.requested {"run":1,"turn":%d,"attempt":1,"reason":"first","model":{"provider":"anthropic","model":"claude-sonnet-4-5"},"through":%d,"contextRevision":%d,"configRevision":1,"toolset":1,"estimate":%d,"fingerprint":"%s"}`
	turnCompleted = `turn.completed {"run":1,"turn":%d,"attempt":1,"outcome":%q,"finish":"stop","model":"claude-sonnet-4-5-20250929","responseId":"msg_%s","usage":{"input":12345,"output":234,"cacheRead":10240}}`
)

func (p *play) requested(turn int) string {
	return fmt.Sprintf(turnRequested, turn, 3*turn, 3*turn+1, 1234*turn, p.hex(32))
}

func (p *play) create() {
	p.write(host.DriveIdle, 0, func(c *host.Commit) { c.Meta = p.meta("idle") },
		`session.opened {"inc":"01J00000000000000000000001","config":{"model":{"provider":"anthropic","model":"claude-sonnet-4-5"},"tools":[{"name":"files.*"},{"name":"web.fetch"}],"limits":{"maxTurns":50,"maxRepeats":3},"context":{"compaction":{"mode":"auto"}},"approvals":{"default":"action"}},"by":"ann","via":"key"}`)
}

func (p *play) run(status, input, more string) host.Row {
	return host.Row{Key: "run#000000000001", Data: fmt.Appendf(nil,
		`{"id":1,"status":%q,"input":[{"text":%q}],"submission":"sub-0001","firstSeq":2,"acceptedAt":%d,"actor":{"id":"ann"},"via":"key"%s}`, status, input, p.now, more)}
}

// admit is the api function: a run is accepted, and the machine is to start.
func (p *play) admit() {
	input := p.hex(200)
	p.write(host.DriveStarting, p.now+20_000, func(c *host.Commit) {
		c.Meta = p.meta("running")
		c.Rows = []host.Row{
			{Key: "sub#sub-0001", Data: fmt.Appendf(nil, `{"digest":%q,"run":1}`, p.hex(64)), IfAbsent: true}, p.run("queued", input, ""),
		}
	},
		fmt.Sprintf(`run.accepted {"run":1,"input":[{"text":%q}],"submission":{"id":"sub-0001","digest":%q},"actor":{"id":"ann"},"via":"key"}`, input, p.hex(64)),
		`run.started {"run":1}`,
		`message.added {"entry":1,"run":1,"role":"user","source":"input"}`)
}

// claim is the drive function, before its first model call.
func (p *play) claim() {
	var tools []string
	for i := range 6 {
		tools = append(tools, fmt.Sprintf(`{"name":"files.tool%d","wireName":"files_tool%d","kind":"read","class":"inline","retrySafe":true,"parallel":true,"definition":"%s"}`, i, i, p.hex(64)))
	}
	p.write(host.DriveRunning, p.now+120_000, nil,
		fmt.Sprintf(`tools.published {"revision":1,"ref":"sha256:%s","size":4896,"tools":[%s]}`, p.hex(64), strings.Join(tools, ",")), p.requested(1))
}

// turn is a model's answer with two calls, and their results, each as it comes.
func (p *play) turn(turn, resultBytes int) {
	var called, started []string
	for call := 1; call <= 2; call++ {
		called = append(called, fmt.Sprintf(`tool.called {"run":1,"turn":%d,"call":%d,"providerId":"toolu_%s","tool":"files.read","wireName":"files_read","arguments":"{\"path\":\"%s\"}","verdict":"ok"}`, turn, call, p.hex(24), p.hex(150)))
		started = append(started, fmt.Sprintf(`tool.started {"run":1,"turn":%d,"call":%d,"attempt":1,"reason":"first"}`, turn, call))
	}
	events := []string{fmt.Sprintf(`message.added {"entry":%d,"run":1,"turn":%d,"role":"assistant","source":"model","text":%q}`, 2*turn, turn, p.hex(300))}
	events = append(append(events, called...), fmt.Sprintf(turnCompleted, turn, "tools", p.hex(24)))
	p.write(host.DriveRunning, p.head.DueAt, nil, append(events, started...)...)
	result := func(call int) string {
		return fmt.Sprintf(`tool.completed {"run":1,"turn":%d,"call":%d,"status":"completed","result":%q,"outputBytes":%d}`, turn, call, p.hex(resultBytes), resultBytes)
	}
	p.write(host.DriveRunning, p.head.DueAt, nil, result(1))
	p.write(host.DriveRunning, p.head.DueAt, nil, result(2), p.requested(turn+1))
}

// extend is the watch that keeps a claim, each 60 seconds.
func (p *play) extend() { p.write(host.DriveRunning, p.head.DueAt+60_000, nil) }

// end is the last answer of a run.
func (p *play) end(turn, answerBytes int) {
	answer := p.hex(answerBytes)
	p.write(host.DriveIdle, 0, func(c *host.Commit) {
		c.Meta = p.meta("idle")
		c.Rows = []host.Row{p.run("completed", p.hex(200), fmt.Sprintf(`,"output":%q,"turns":%d,"usage":{"input":12345,"output":234},"endedAt":%d`, answer, turn, p.now))}
	},
		fmt.Sprintf(`message.added {"entry":%d,"run":1,"turn":%d,"role":"assistant","source":"model","text":%q}`, 2*turn, turn, answer),
		fmt.Sprintf(turnCompleted, turn, "final", p.hex(24)),
		fmt.Sprintf(`run.completed {"run":1,"output":%q}`, answer))
}

// TestARunCostsWhatItMay is a first estimate of the bars for AWS: what the
// commits of a run write. What a deployment really writes is counted end to
// end.
func TestARunCostsWhatItMay(t *testing.T) {
	t.Parallel()

	t.Run("OneTurn", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t)
		p.create()
		p.meter.Reset()
		p.admit()
		admission := p.meter.Total()
		p.claim()
		p.end(1, 1200)
		whole := p.meter.Total()
		t.Logf("admission %+v, whole %+v", admission, whole)
		require.LessOrEqual(t, whole.Write, 36.0)
		require.Zero(t, whole.Read)
	})

	t.Run("TenTurns", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t)
		p.create()
		p.meter.Reset()
		p.admit()
		p.claim()
		const turns = 10
		for turn := 1; turn < turns; turn++ {
			p.turn(turn, 1500)
			p.extend()
		}
		p.end(turns, 1200)
		whole := p.meter.Total()
		t.Logf("whole %+v: %.1f units a turn", whole, whole.Write/turns)
		require.LessOrEqual(t, whole.Write/turns, 24.0)
	})

	t.Run("Reads", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t)
		p.create()
		p.admit()
		p.claim()
		for turn := 1; turn < 20; turn++ {
			p.turn(turn, 1500)
		}
		// Admission of a session that is not cached: head and document, the
		// pointer, and a tail of 64 KB at most.
		p.meter.Reset()
		ctx := t.Context()
		_, _, err := p.Open(ctx, p.key)
		require.NoError(t, err)
		_, err = p.GetPointer(ctx, p.key)
		require.NoError(t, err)
		tail, err := p.Read(ctx, p.key, 6, p.head.Seq, 1000, 64<<10)
		require.NoError(t, err)
		require.NotEmpty(t, tail)
		cold := p.meter.Reset()
		t.Logf("cold admission %+v, %d events", cold, len(tail))
		require.LessOrEqual(t, cold.Calls, 3)
		require.LessOrEqual(t, cold.Read, 16.0)
		// The look at a session that is driven, twice a second.
		for range 2 {
			_, err := p.Peek(ctx, p.key)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, p.meter.Reset().Read, 1.0)
	})
}
