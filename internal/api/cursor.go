package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// cursorMac is how many bytes of the MAC a cursor carries.
const cursorMac = 16

// bound is what a cursor is good for: one tenant's list at one path with one
// set of filters. Who changes a filter has another list.
func (r *request) bound() []string {
	out := []string{string(r.who.Tenant), r.Method, r.URL.Path}
	for name, value := range r.query {
		if name != "cursor" && name != "limit" {
			out = append(out, name+"="+value)
		}
	}
	slices.Sort(out[3:])
	return out
}

// seal makes an opaque cursor of a position.
func (s *server) seal(r *request, position any) (string, error) {
	data, err := json.Marshal(position)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(s.mac(r, data), data...)), nil
}

// open reads the request's cursor into position, which stays as it is if there
// is none.
func (s *server) open(r *request, position any) error {
	text := r.query["cursor"]
	if text == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= cursorMac || !hmac.Equal(s.mac(r, raw[cursorMac:]), raw[:cursorMac]) {
		return invalidAt("query.cursor", "it is not a cursor of this list with these filters")
	}
	return json.Unmarshal(raw[cursorMac:], position)
}

func (s *server) mac(r *request, data []byte) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	for _, part := range append([]string{"perdure.cursor.1", string(data)}, r.bound()...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)[:cursorMac]
}

// Bounds of lists.
const (
	limitDefault = 50
	limitMost    = 200
	pageBytes    = 4 << 20
)

// Listing is what every list takes.
type Listing struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" doc:"The next of the page before."`
}

// pager fills a page: it ends at the limit, or before the item with which it
// would become too large.
type pager[T any] struct {
	s    *server
	r    *request
	most int
	size int
	page Page[T]
}

func newPager[T any](s *server, r *request) *pager[T] {
	most := limitDefault
	if n, err := strconv.Atoi(r.query["limit"]); err == nil {
		most = min(max(n, 1), limitMost)
	}
	return &pager[T]{s: s, r: r, most: most, page: Page[T]{Items: []T{}}}
}

// add takes an item; false says that the page is full and the item is not in.
func (p *pager[T]) add(item T) (bool, error) {
	data, err := encode(item)
	if err != nil {
		return false, err
	}
	if len(p.page.Items) > 0 && p.size+len(data) > pageBytes {
		return false, nil
	}
	p.size += len(data)
	p.page.Items = append(p.page.Items, item)
	return true, nil
}

func (p *pager[T]) full() bool { return len(p.page.Items) >= p.most }

// after ends the page with a cursor to go on from.
func (p *pager[T]) after(position any) (*reply[Page[T]], error) {
	next, err := p.s.seal(p.r, position)
	if err != nil {
		return nil, err
	}
	p.page.Next = next
	return p.end(), nil
}

// end ends the page, and with it the list.
func (p *pager[T]) end() *reply[Page[T]] { return answer(http.StatusOK, p.page) }
