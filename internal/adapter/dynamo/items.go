package dynamo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// batchBytes is how many bytes of events one item takes: under the limit of an
// item with room for the overhead of 256 events. A batch of the host is far
// below it; a larger one is several items.
const (
	batchBytes  = 360_000
	batchEvents = 256
	itemBytes   = 400 * 1024
)

func (s *Store) headItem(pk string, h host.Head) (item, error) {
	it := itemKey(pk, skHead)
	it[attrRev] = number(h.Rev)
	it[attrWrite] = text(h.Write)
	it[attrSeq] = number(h.Seq)
	it[attrInc] = text(h.Inc)
	it[attrStatus] = text(h.Status)
	it[attrDrive] = text(driveText(h.Drive))
	it[attrAt] = number(h.At)
	if h.Failures != 0 {
		it[attrFailures] = number(h.Failures)
	}
	if h.Quarantine != nil {
		data, err := json.Marshal(h.Quarantine)
		if err != nil {
			return nil, fmt.Errorf("quarantine: %w", err)
		}
		it[attrQuarantine] = text(string(data))
	}
	// Only while somebody owes it something is the session in the index.
	if h.DueAt != 0 {
		it[attrDuePK] = text(dueKey(s.shardOf(pk)))
		it[attrDueSK] = number(h.DueAt)
	}
	return it, nil
}

// driveText is one attribute, so that a claim is one comparison.
func driveText(d host.Drive) string {
	return fmt.Sprintf("%d/%d/%d/%s", d.Epoch, d.Step, d.Attempt, d.Status)
}

func parseDrive(s string) (d host.Drive, err error) {
	parts := strings.SplitN(s, "/", 4)
	if len(parts) != 4 {
		return d, fmt.Errorf("drive of a head: %w", ErrDamaged)
	}
	var errs [3]error
	d.Epoch, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	d.Step, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	d.Attempt, errs[2] = strconv.Atoi(parts[2])
	d.Status = parts[3]
	if err := errors.Join(errs[:]...); err != nil {
		return d, fmt.Errorf("drive of a head: %w: %w", ErrDamaged, err)
	}
	return d, nil
}

// parseHead reads a head. No item is no head.
func parseHead(it item) (host.Head, error) {
	if len(it) == 0 {
		return host.Head{}, nil
	}
	r := reader{it: it}
	h := host.Head{
		Rev: r.uint(attrRev), Write: r.text(attrWrite), Seq: ident.Seq(r.uint(attrSeq)), Inc: r.text(attrInc),
		Status: r.text(attrStatus), At: ident.Instant(r.int(attrAt)),
	}
	var err error
	if h.Drive, err = parseDrive(r.text(attrDrive)); err != nil {
		return host.Head{}, err
	}
	if r.has(attrFailures) {
		h.Failures = int(r.int(attrFailures))
	}
	if r.has(attrDueSK) {
		h.DueAt = ident.Instant(r.int(attrDueSK))
	}
	if r.has(attrQuarantine) {
		h.Quarantine = &host.Quarantine{}
		if err := json.Unmarshal([]byte(r.text(attrQuarantine)), h.Quarantine); err != nil {
			return host.Head{}, fmt.Errorf("quarantine of a head: %w: %w", ErrDamaged, err)
		}
	}
	return h, r.err
}

// batchItems are the events of a commit under their first position.
func (s *Store) batchItems(pk, write string, entries []host.StoredEntry) []item {
	var items []item
	for len(entries) > 0 {
		n, bytes := 0, 0
		for n < len(entries) && n < batchEvents && (n == 0 || bytes+len(entries[n].Data) <= batchBytes) {
			bytes += len(entries[n].Data)
			n++
		}
		events := make([][]byte, n)
		for i := range events {
			events[i] = entries[i].Data
		}
		it := itemKey(pk, batchSK(entries[0].Seq))
		it[attrWrite] = text(write)
		it[attrEvents] = blob(s.packer.packAll(events))
		items, entries = append(items, it), entries[n:]
	}
	return items
}

func (s *Store) parseBatch(it item) ([]host.StoredEntry, error) {
	r := reader{it: it}
	seq, ok := batchSeq(r.text(attrSK))
	packed := r.blob(attrEvents)
	if r.err != nil || !ok {
		return nil, fmt.Errorf("batch of events: %w", ErrDamaged)
	}
	events, err := s.packer.unpackAll(packed)
	if err != nil {
		return nil, fmt.Errorf("events from %d: %w", seq, err)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("events from %d: %w", seq, ErrDamaged)
	}
	entries := make([]host.StoredEntry, len(events))
	for i, data := range events {
		entries[i] = host.StoredEntry{Seq: seq + ident.Seq(i), Data: data}
	}
	return entries, nil
}

func (s *Store) rowItem(pk string, key host.Key, row host.Row) (item, error) {
	sk, err := rowSK(row.Key)
	if err != nil {
		return nil, err
	}
	it := itemKey(pk, sk)
	it[attrData] = blob(s.packer.pack(row.Data))
	if row.Todo != 0 {
		it[attrTodoPK] = text(string(key.Tenant))
		it[attrTodoSK] = text(todoKey(row.Todo, key.Session, row.Key))
	}
	return it, nil
}

func (s *Store) parseRow(it item) (host.Row, error) {
	r := reader{it: it}
	row := host.Row{Key: rowOf(r.text(attrSK))}
	if r.has(attrTodoSK) {
		row.Todo = todoAt(r.text(attrTodoSK))
	}
	var err error
	if row.Data, err = s.data(&r); err != nil {
		return host.Row{}, fmt.Errorf("row: %w", err)
	}
	return row, r.err
}

// metaItem is the listing document. A session that is being deleted is in no
// list.
func metaItem(pk string, key host.Key, status string, m host.Meta) (item, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	it := itemKey(pk, skMeta)
	it[attrDoc] = text(string(data))
	if status != host.StatusDeleting {
		list, place := listKeys(key.Tenant, status, m.UpdatedAt, key.Session)
		it[attrListPK], it[attrListSK] = text(list), text(place)
	}
	return it, nil
}

// parseMeta reads the listing document; false is that there is none.
func parseMeta(it item) (m host.Meta, there bool, err error) {
	r := reader{it: it}
	if !r.has(attrDoc) {
		return m, false, nil
	}
	if err := json.Unmarshal([]byte(r.text(attrDoc)), &m); err != nil {
		return m, false, fmt.Errorf("meta: %w: %w", ErrDamaged, err)
	}
	return m, true, r.err
}

// data reads the bytes of a row, a stashed document or a document.
func (s *Store) data(r *reader) ([]byte, error) {
	stored := r.blob(attrData)
	if r.err != nil {
		return nil, r.err
	}
	return s.packer.unpack(stored)
}

// reader reads attributes and remembers the first that is not as it should be.
type reader struct {
	it  item
	err error
}

func (r *reader) has(name string) bool { return r.it[name] != nil }

func (r *reader) bad(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s: %w", name, ErrDamaged)
	}
}

func (r *reader) text(name string) string {
	v, ok := r.it[name].(*types.AttributeValueMemberS)
	if !ok {
		r.bad(name)
		return ""
	}
	return v.Value
}

func (r *reader) blob(name string) []byte {
	v, ok := r.it[name].(*types.AttributeValueMemberB)
	if !ok {
		r.bad(name)
		return nil
	}
	return v.Value
}

func (r *reader) digits(name string) string {
	v, ok := r.it[name].(*types.AttributeValueMemberN)
	if !ok {
		r.bad(name)
		return "0"
	}
	return v.Value
}

func (r *reader) int(name string) int64 {
	n, err := strconv.ParseInt(r.digits(name), 10, 64)
	if err != nil {
		r.bad(name)
	}
	return n
}

func (r *reader) uint(name string) uint64 {
	n, err := strconv.ParseUint(r.digits(name), 10, 64)
	if err != nil {
		r.bad(name)
	}
	return n
}
