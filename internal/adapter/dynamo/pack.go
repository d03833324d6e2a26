package dynamo

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Stored bytes begin with the form of what follows. A form is for ever, with
// its dictionary: what is written under it must be readable as long as any
// table has it.
const (
	formPlain byte = 0 // as it is
	formFlate byte = 1 // deflated with dictionary
)

// Writes are billed by the kilobyte, twice in a transaction, and events of one
// commit say the same things again and again: deflating them halves the price
// of a turn. What is shorter than packFrom gains nothing.
const (
	packFrom = 128
	// packMost bounds what stored bytes unpack to.
	packMost = 8 << 20
)

// dictionary is what texts of events and rows have in common, the most common
// last. Never change a byte of it: that would be another form.
const dictionary = `"status":"rejected"expired"unavailable"not_run"forbidden"invalid"unknown"cancelled"failed"undelivered"delivered"` +
	`"kind":"context.compaction_failed","v":1,"data":{"kind":"context.compaction_started","v":1,"data":{"kind":"context.cut","v":1,"data":{"through":` +
	`"kind":"session.quarantined","v":1,"data":{"kind":"session.closed","v":1,"data":{"by":"kind":"session.configured","v":1,"data":{"config":{` +
	`"kind":"command.dead","v":1,"data":{"kind":"promise.detached","v":1,"data":{"kind":"promise.settled","v":1,"data":{"promise":` +
	`"kind":"promise.created","v":1,"data":{"promise":"deadline":179"kind":"question.answered","v":1,"data":{"kind":"question.asked","v":1,"data":{"question":` +
	`"kind":"approval.remembered","v":1,"data":{"kind":"approval.decided","v":1,"data":{"approval":"decision":"approve","by":` +
	`"kind":"approval.requested","v":1,"data":{"approval":"class":"joined"promise"retryable":true,"message":"` +
	`"kind":"run.cancel_requested","v":1,"data":{"kind":"run.cancelled","v":1,"data":{"kind":"run.failed","v":1,"data":{"run":"code":"` +
	`"kind":"run.steered","v":1,"data":{"steering":"kind":"run.steer_delivered","v":1,"data":{"kind":"run.waiting","v":1,"data":{"waitingOn":"kind":"run.resumed","v":1,"data":{` +
	`"kind":"turn.failed","v":1,"data":{"run":"attempt":"class":"rate_limit"server"timeout"network"kind":"turn.cancelled","v":1,"data":{"kind":"tool.late","v":1,"data":{` +
	`"kind":"session.opened","v":1,"data":{"inc":"01K","config":{"model":{"provider":"openai","model":"gpt-"anthropic"claude-"},"instructions":[{"text":"You are "}],"tools":[{"name":"files.*"},{"name":"web.fetch"}],"limits":{"maxTurns":50,"maxRepeats":3},"context":{"compaction":{"mode":"auto"}},"approvals":{"default":"action"}},"by":"","via":"key"}}` +
	`"kind":"tools.published","v":1,"data":{"revision":1,"ref":"sha256:","size":,"tools":[{"name":"files.read","wireName":"files_read","kind":"action","class":"inline","deadlineMs":30000,"gate":true,"kind":"read","class":"inline","retrySafe":true,"parallel":true,"definition":"` +
	`{"id":1,"status":"queued"running"waiting"completed","input":[{"text":""}],"submission":"","firstSeq":,"lastSeq":,"acceptedAt":179,"startedAt":179,"endedAt":179,"turns":,"output":"","actor":{"id":"","roles":[]},"via":"key"}{"digest":"","run":1}` +
	`"kind":"run.completed","v":1,"data":{"run":1,"output":"` +
	`"kind":"run.accepted","v":1,"data":{"run":1,"input":[{"text":""}],"submission":{"id":"","digest":""},"actor":{"id":""},"via":"key"}}` +
	`"kind":"run.started","v":1,"data":{"run":1}}` +
	`"kind":"message.added","v":1,"data":{"entry":1,"run":1,"role":"user","source":"input"}}` +
	`"item":{"kind":"","family":"","ref":"sha256:","size":,"preview":""}` +
	`"kind":"turn.completed","v":1,"data":{"run":1,"turn":1,"attempt":1,"outcome":"final","finish":"stop","outcome":"tools","finish":"tools","model":"","responseId":"","usage":{"input":,"output":,"cacheRead":,"cacheWrite":,"reasoning":}}}` +
	`"kind":"turn.requested","v":1,"data":{"run":1,"turn":,"attempt":1,"reason":"first","model":{"provider":"","model":""},"through":,"contextRevision":,"configRevision":1,"toolset":1,"estimate":,"fingerprint":""}}` +
	`"kind":"tool.completed","v":1,"data":{"run":1,"turn":,"call":1,"status":"completed","result":"{\"","outputBytes":}}` +
	`"kind":"message.added","v":1,"data":{"entry":,"run":1,"turn":,"role":"assistant","source":"model","text":"` +
	`"kind":"tool.called","v":1,"data":{"run":1,"turn":,"call":1,"providerId":"call_","tool":"","wireName":"","arguments":"{\"\":\"\"}","verdict":"ok"}}` +
	`{"seq":,"at":179"kind":"tool.started","v":1,"data":{"run":1,"turn":,"call":1,"attempt":1,"reason":"first"}}{"seq":`

// packer packs and unpacks. The zero value is ready; it keeps what is dear to
// make.
type packer struct {
	writers sync.Pool
	readers sync.Pool
}

func (p *packer) pack(data []byte) []byte {
	if len(data) >= packFrom {
		if packed := p.deflate(data); len(packed) < len(data) {
			return packed
		}
	}
	return append([]byte{formPlain}, data...)
}

func (p *packer) deflate(data []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(data)/2+16))
	out.WriteByte(formFlate)
	w, ok := p.writers.Get().(*flate.Writer)
	if !ok {
		var err error
		if w, err = flate.NewWriterDict(nil, flate.BestCompression, []byte(dictionary)); err != nil {
			return data // no level is wrong but a wrong one
		}
	}
	w.Reset(out)
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return data // a buffer takes everything
	}
	p.writers.Put(w)
	return out.Bytes()
}

func (p *packer) unpack(stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return nil, fmt.Errorf("no form of bytes: %w", ErrDamaged)
	}
	switch stored[0] {
	case formPlain:
		return stored[1:], nil
	case formFlate:
		return p.inflate(stored[1:])
	default:
		return nil, fmt.Errorf("form %d of bytes: %w", stored[0], ErrNewerForm)
	}
}

func (p *packer) inflate(packed []byte) ([]byte, error) {
	r, ok := p.readers.Get().(io.ReadCloser)
	if !ok {
		r = flate.NewReaderDict(nil, []byte(dictionary))
	}
	defer p.readers.Put(r)
	if reset, ok := r.(flate.Resetter); ok {
		if err := reset.Reset(bytes.NewReader(packed), []byte(dictionary)); err != nil {
			return nil, fmt.Errorf("packed bytes: %w: %w", ErrDamaged, err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, packMost+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("packed bytes: %w: %w", ErrDamaged, err)
	case len(data) > packMost:
		return nil, fmt.Errorf("packed bytes of more than %d: %w", packMost, ErrDamaged)
	}
	return data, nil
}

// packAll packs several texts as one: each with its length before it.
func (p *packer) packAll(texts [][]byte) []byte {
	size := 0
	for _, t := range texts {
		size += binary.MaxVarintLen32 + len(t)
	}
	data := make([]byte, 0, size)
	for _, t := range texts {
		data = append(binary.AppendUvarint(data, uint64(len(t))), t...)
	}
	return p.pack(data)
}

func (p *packer) unpackAll(stored []byte) (texts [][]byte, err error) {
	data, err := p.unpack(stored)
	for err == nil && len(data) > 0 {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return nil, fmt.Errorf("lengths of packed bytes: %w", ErrDamaged)
		}
		end := n + int(size)
		texts = append(texts, data[n:end:end])
		data = data[end:]
	}
	return texts, err
}
