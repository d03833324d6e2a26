package dynamotest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// value is an attribute on the wire, as in {"S": "text"}.
type value map[string]any

func (v value) text() string {
	s, _ := v["S"].(string)
	n, _ := v["N"].(string)
	return s + n
}

// compare orders two sort keys of one type.
func (v value) compare(w value) int {
	if _, number := v["N"]; number {
		a, _ := strconv.ParseInt(v.text(), 10, 64)
		b, _ := strconv.ParseInt(w.text(), 10, 64)
		return cmp.Compare(a, b)
	}
	return cmp.Compare(v.text(), w.text())
}

type wireItem map[string]value

// items are all items that were put, and not deleted, by table and key.
type items map[[3]string]wireItem

func keyOf(table string, it wireItem) [3]string {
	return [3]string{table, it["pk"].text(), it["sk"].text()}
}

// write is one write of any request.
type write struct {
	TableName string   `json:"TableName"`
	Item      wireItem `json:"Item"`
	Key       wireItem `json:"Key"`
}

// transacted is one write of a transaction, batched one of a batch.
type transacted struct {
	Put    *write `json:"Put"`
	Delete *write `json:"Delete"`
}

type batched struct {
	PutRequest    *write `json:"PutRequest"`
	DeleteRequest *write `json:"DeleteRequest"`
}

// query is what is understood of a query: a range of one partition.
type query struct {
	TableName string            `json:"TableName"`
	IndexName string            `json:"IndexName"`
	Names     map[string]string `json:"ExpressionAttributeNames"`
	Values    wireItem          `json:"ExpressionAttributeValues"`
	Forward   *bool             `json:"ScanIndexForward"`
	Limit     int               `json:"Limit"`
	Start     wireItem          `json:"ExclusiveStartKey"`
}

// follow notes what a request has written. Updates it does not follow: an item
// stays as it was put.
func (t *Transport) follow(c *Call) {
	var body struct {
		write
		TransactItems []transacted         `json:"TransactItems"`
		RequestItems  map[string][]batched `json:"RequestItems"`
	}
	if c.Op == "BatchGetItem" || json.Unmarshal(c.Body, &body) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	note := func(table string, w *write) {
		switch {
		case w == nil:
		case w.Item != nil:
			t.items[keyOf(table, w.Item)] = w.Item
		case w.Key != nil:
			delete(t.items, keyOf(table, w.Key))
		}
	}
	switch c.Op {
	case "PutItem", "DeleteItem":
		note(body.TableName, &body.write)
	case "TransactWriteItems":
		for _, w := range body.TransactItems {
			for _, one := range []*write{w.Put, w.Delete} {
				if one != nil {
					note(one.TableName, one)
				}
			}
		}
	case "BatchWriteItem":
		for table, writes := range body.RequestItems {
			for _, w := range writes {
				note(table, w.PutRequest)
				note(table, w.DeleteRequest)
			}
		}
	}
}

// Lag has indexes stay as they are now, until CatchUp: what is put later is not
// in them, what is changed or deleted later is as it was.
func (t *Transport) Lag() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lagging = maps.Clone(t.items)
}

// CatchUp has indexes show everything.
func (t *Transport) CatchUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lagging = nil
}

// lag answers a query of an index that lags.
func (t *Transport) lag(c *Call) *http.Response {
	var q query
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lagging == nil || c.Op != "Query" || json.Unmarshal(c.Body, &q) != nil || q.IndexName == "" {
		return nil
	}
	hash, sort := q.Names["#h"], q.Names["#s"]
	v := q.Values
	var found []wireItem
	for key, it := range t.lagging {
		if key[0] == q.TableName && it[hash] != nil && it[hash].text() == v[":h"].text() && it[sort] != nil &&
			it[sort].compare(v[":low"]) >= 0 && it[sort].compare(v[":high"]) <= 0 {
			found = append(found, it)
		}
	}
	slices.SortFunc(found, func(a, b wireItem) int {
		return cmp.Or(a[sort].compare(b[sort]), cmp.Compare(a["pk"].text(), b["pk"].text()), cmp.Compare(a["sk"].text(), b["sk"].text()))
	})
	if q.Forward != nil && !*q.Forward {
		slices.Reverse(found)
	}
	if q.Start != nil {
		at := slices.IndexFunc(found, func(it wireItem) bool { return keyOf("", it) == keyOf("", q.Start) })
		found = found[at+1:]
	}
	body := map[string]any{}
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
		end := found[q.Limit-1]
		body["LastEvaluatedKey"] = wireItem{"pk": end["pk"], "sk": end["sk"], hash: end[hash], sort: end[sort]}
	}
	if found == nil {
		found = []wireItem{}
	}
	body["Items"], body["Count"], body["ScannedCount"] = found, len(found), len(found)
	response, err := answer(http.StatusOK, body)
	if err != nil {
		return nil
	}
	return response
}
