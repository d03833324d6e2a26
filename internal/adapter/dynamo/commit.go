package dynamo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Limits of one transaction.
const (
	transactItems = 100
	transactBytes = 4 << 20
)

// writing is a commit made ready. Its items stand in the order of the requests:
// the head, the batch, the listing document, rows, deletions.
type writing struct {
	host.Commit
	pk     string
	writes []types.TransactWriteItem
	// batch is the index of the request that puts the first batch; 0 is none.
	batch int
	// rows are the indexes of rows that must be absent.
	rows map[int]string
}

// Commit implements host.Log. ErrFull it never returns: a table has no end.
func (s *Store) Commit(ctx context.Context, c host.Commit) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	if err := checkForm(c); err != nil {
		return err
	}
	w, err := s.prepare(c)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.putBlobs(ctx, c); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if len(w.writes) == 1 {
		return s.commitHead(ctx, w)
	}
	return s.commitAll(ctx, w)
}

// checkForm refuses a batch that no head makes right.
func checkForm(c host.Commit) error {
	if c.Head.Rev != c.Expect+1 || c.Head.Rev > 1<<62 {
		return fmt.Errorf("commit of %s: rev %d does not follow %d", c.Key, c.Head.Rev, c.Expect)
	}
	if c.Head.Seq > seqMax {
		return fmt.Errorf("commit of %s: a log has at most %d events", c.Key, seqMax)
	}
	from := c.Head.Seq + 1 - ident.Seq(len(c.Entries))
	for i, e := range c.Entries {
		if e.Seq != from+ident.Seq(i) {
			return fmt.Errorf("commit of %s: event %d where %d follows, with the head at %d", c.Key, e.Seq, from+ident.Seq(i), c.Head.Seq)
		}
	}
	if before := c.Head.Seq - ident.Seq(len(c.Entries)); c.Expect == 0 && before != 0 {
		return notFollowing(c, 0)
	}
	return nil
}

// notFollowing refuses a batch whose place is not behind the head's last event.
func notFollowing(c host.Commit, last ident.Seq) error {
	return fmt.Errorf("commit of %s: %d events up to %d do not follow %d", c.Key, len(c.Entries), c.Head.Seq, last)
}

// prepare builds the requests of a commit.
func (s *Store) prepare(c host.Commit) (*writing, error) {
	pk, err := partition(c.Key)
	if err != nil {
		return nil, err
	}
	w := &writing{Commit: c, pk: pk, rows: map[int]string{}}
	head, err := s.headItem(pk, c.Head)
	if err != nil {
		return nil, err
	}
	condition, values := w.condition()
	w.put(s.table, head, condition, values)
	for i, batch := range s.batchItems(pk, c.Head.Write, c.Entries) {
		if i == 0 {
			w.batch = len(w.writes)
		}
		w.put(s.table, batch, absent, nil)
	}
	if err := s.prepareMeta(w); err != nil {
		return nil, err
	}
	if err := s.prepareRows(w); err != nil {
		return nil, err
	}
	return w, w.fits()
}

// absent is the condition that an item is not there.
const absent = "attribute_not_exists(pk)"

// condition is what the head must be. That the batch follows the head's last
// event is part of it: a batch that does not was decided on another log.
func (w *writing) condition() (string, item) {
	if w.Expect == 0 {
		return absent, nil
	}
	values := item{":rev": number(w.Expect), ":seq": number(w.Head.Seq - ident.Seq(len(w.Entries)))}
	condition := "rev = :rev AND seq = :seq"
	if w.Claim != nil {
		condition += " AND drive = :drive"
		values[":drive"] = text(driveText(*w.Claim))
	}
	return condition, values
}

func (w *writing) put(table string, it item, condition string, values item) {
	put := &types.Put{
		TableName: aws.String(table), Item: it,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if condition != "" {
		put.ConditionExpression, put.ExpressionAttributeValues = aws.String(condition), values
	}
	w.writes = append(w.writes, types.TransactWriteItem{Put: put})
}

// prepareMeta keeps the place in the list that of the head's status, also where
// a commit closes or deletes a session and leaves its document as it is.
func (s *Store) prepareMeta(w *writing) error {
	switch {
	case w.Meta != nil:
		meta, err := metaItem(w.pk, w.Key, w.Head.Status, *w.Meta)
		if err != nil {
			return err
		}
		w.put(s.table, meta, "", nil)
	case w.Head.Status == host.StatusDeleting:
		w.update(s.table, "REMOVE lpk, lsk", nil)
	case w.Head.Status == host.StatusClosed:
		list, _ := listKeys(w.Key.Tenant, w.Head.Status, 0, w.Key.Session)
		w.update(s.table, "SET lpk = :list", item{":list": text(list)})
	}
	return nil
}

func (w *writing) update(table, expression string, values item) {
	w.writes = append(w.writes, types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(table), Key: itemKey(w.pk, skMeta),
		UpdateExpression: aws.String(expression), ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
}

// prepareRows adds rows and deletions. A transaction may name an item once: of
// a row that is both deleted and written, the write stays.
func (s *Store) prepareRows(w *writing) error {
	written := map[string]bool{}
	for _, row := range slices.Backward(w.Rows) {
		if written[row.Key] {
			continue
		}
		written[row.Key] = true
		it, err := s.rowItem(w.pk, w.Key, row)
		if err != nil {
			return err
		}
		condition := ""
		if row.IfAbsent {
			condition, w.rows[len(w.writes)] = absent, row.Key
		}
		w.put(s.table, it, condition, nil)
	}
	for _, key := range w.DeleteRows {
		if written[key] {
			continue
		}
		written[key] = true
		sk, err := rowSK(key)
		if err != nil {
			return err
		}
		w.writes = append(w.writes, types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String(s.table), Key: itemKey(w.pk, sk)}})
	}
	return nil
}

// fits refuses before it is sent what DynamoDB would refuse, and says why.
func (w *writing) fits() error {
	if len(w.writes) > transactItems {
		return fmt.Errorf("%d items, allowed are %d: %w", len(w.writes), transactItems, ErrTooLarge)
	}
	sum := 0
	for _, write := range w.writes {
		if write.Put == nil {
			continue
		}
		size := ItemSize(write.Put.Item)
		if size > itemBytes {
			sk, _ := write.Put.Item[attrSK].(*types.AttributeValueMemberS)
			kind, _, _ := strings.Cut(sk.Value, "#")
			return fmt.Errorf("an item %s# of %d bytes, allowed are %d: %w", kind, size, itemBytes, ErrTooLarge)
		}
		sum += size
	}
	if sum > transactBytes {
		return fmt.Errorf("%d bytes, allowed are %d: %w", sum, transactBytes, ErrTooLarge)
	}
	return nil
}

// blobsAtOnce is how many blobs of a commit are written side by side.
const blobsAtOnce = 4

// putBlobs makes a commit's blobs durable before anything names them.
func (s *Store) putBlobs(ctx context.Context, c host.Commit) error {
	if len(c.Blobs) == 0 {
		return nil
	}
	if s.o.Blobs == nil {
		return errors.New("blobs: the store was made without a place for them")
	}
	errs := make([]error, len(c.Blobs))
	var all sync.WaitGroup
	for lane := range min(blobsAtOnce, len(c.Blobs)) {
		all.Go(func() {
			for i := lane; i < len(c.Blobs); i += blobsAtOnce {
				errs[i] = s.o.Blobs.PutBlob(ctx, c.Key, c.Blobs[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// commitHead writes a head that has nothing beside it: a plain conditional put
// costs half of a transaction.
func (s *Store) commitHead(ctx context.Context, w *writing) error {
	put := w.writes[0].Put
	err := s.try(ctx, "commit", func(ctx context.Context) error {
		_, err := s.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: put.TableName, Item: put.Item,
			ConditionExpression: put.ConditionExpression, ExpressionAttributeValues: put.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: put.ReturnValuesOnConditionCheckFailure,
		})
		return err //nolint:wrapcheck // by try
	})
	refusal, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return err
	}
	return s.refused(ctx, w, refusal.Item, nil, "")
}

func (s *Store) commitAll(ctx context.Context, w *writing) error {
	in := &dynamodb.TransactWriteItemsInput{TransactItems: w.writes, ClientRequestToken: w.token(s.table)}
	err := s.try(ctx, "commit", func(ctx context.Context) error {
		_, err := s.api.TransactWriteItems(ctx, in)
		return err //nolint:wrapcheck // by try
	})
	if err == nil {
		return nil
	}
	if judge(err) == mismatched {
		return s.mismatched(ctx, w)
	}
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || judge(err) != refused {
		return err
	}
	return s.cancelled(ctx, w, cancelled.CancellationReasons)
}

// token names the commit to DynamoDB: for ten minutes the same request under it
// is done once. Tokens are an account's, so the table is part of it. A commit
// without a write id has no name.
func (w *writing) token(table string) *string {
	if w.Head.Write == "" {
		return nil
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", table, w.pk, w.Head.Write, w.Expect))
	return aws.String(hex.EncodeToString(h[:16]))
}

// cancelled reads the reasons of a transaction of which a condition did not
// hold.
func (s *Store) cancelled(ctx context.Context, w *writing, reasons []types.CancellationReason) error {
	failed := func(i int) (item, bool) {
		if i >= len(reasons) || aws.ToString(reasons[i].Code) != codeCondition {
			return nil, false
		}
		return reasons[i].Item, true
	}
	var batch item
	if w.batch > 0 {
		batch, _ = failed(w.batch)
	}
	if head, did := failed(0); did {
		return s.refused(ctx, w, head, batch, "")
	}
	for i, row := range w.rows {
		if _, did := failed(i); did {
			// The head held, so its item was not sent along.
			return s.refusedBy(ctx, w, row)
		}
	}
	if w.wrote(batch) {
		return nil
	}
	return fmt.Errorf("commit: there are events at %d, after the head's last: %w", w.Entries[0].Seq, ErrDamaged)
}

// refused answers for a head that is not what the commit expected: the write
// may be there already, by an answer that was lost. It is looked for on the
// head and at its first event, where it stays when others have written since.
func (s *Store) refused(ctx context.Context, w *writing, head, batch item, row string) error {
	now, err := parseHead(head)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if w.Head.Write == "" || now.Rev == 0 {
		return &host.Conflict{Head: now, Row: row}
	}
	if now.Write == w.Head.Write || w.wrote(batch) {
		return nil
	}
	if batch == nil && len(w.Entries) > 0 && w.Entries[0].Seq <= now.Seq {
		// The reasons need not tell of every item.
		if batch, err = s.get(ctx, "commit", w.pk, batchSK(w.Entries[0].Seq), true); err != nil {
			return err
		}
		if w.wrote(batch) {
			return nil
		}
	}
	if row == "" && w.holds(now) {
		return notFollowing(w.Commit, now.Seq)
	}
	return &host.Conflict{Head: now, Row: row}
}

// holds says whether a head is what the commit expected, but for its events.
func (w *writing) holds(now host.Head) bool {
	return now.Rev == w.Expect && (w.Claim == nil || *w.Claim == now.Drive)
}

// refusedBy answers for a row that is there, with the head as it is.
func (s *Store) refusedBy(ctx context.Context, w *writing, row string) error {
	head, err := s.get(ctx, "commit", w.pk, skHead, true)
	if err != nil {
		return err
	}
	return s.refused(ctx, w, head, nil, row)
}

// wrote says whether a batch is this commit's.
func (w *writing) wrote(batch item) bool {
	write, ok := batch[attrWrite].(*types.AttributeValueMemberS)
	return ok && w.Head.Write != "" && write.Value == w.Head.Write
}

// mismatched answers for a write id under which something else was sent. The
// head says whether this commit can be right at all.
func (s *Store) mismatched(ctx context.Context, w *writing) error {
	head, err := s.get(ctx, "commit", w.pk, skHead, true)
	if err != nil {
		return err
	}
	now, err := parseHead(head)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if !w.holds(now) {
		return s.refused(ctx, w, head, nil, "")
	}
	return fmt.Errorf("commit of %s: its write id was used for another commit: give each its own", w.Key)
}
