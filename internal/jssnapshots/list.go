package jssnapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
)

// The list of the sessions of a tenant is read from their heads, from the ends of the streams of the buckets, so that the last saved head is the first. A header
// of each head has the members of the list, and only headers are sent. So a list needs no writes, and always matches the heads.

// Sessions implements projector.Lister. Each bucket is read only as far as the page needs its heads, and the buckets at the same time.
func (st *Store) Sessions(ctx context.Context, tenant string, q projector.SessionQuery) (projector.SessionPage, error) {
	filter, err := names.SnapshotTenantHeadKeys(tenant)
	if err != nil {
		return projector.SessionPage{}, err
	}
	q.Limit = cmp.Or(q.Limit, projector.DefaultPage)
	q.Limit = min(max(1, q.Limit), projector.MaxScan)
	all, err := st.buckets(ctx)
	if err != nil {
		return projector.SessionPage{}, err
	}
	ends, err := parseCursor(q.Before, len(all))
	if err != nil {
		return projector.SessionPage{}, err
	}
	m := merge{query: q}
	if q.Text != "" && !q.TitleOnly && q.Shows == nil { // the time of the look-up tells whether another user has a session with the id
		m.id = q.Text
	}
	for i, b := range all {
		l := &listing{Store: st, b: b, filter: filter, end: ends[i], until: q.Until, most: max(64, maxStep/uint64(len(all)))}
		l.few = min(uint64(q.Limit/len(all))+1, l.most)
		m.all = append(m.all, l)
	}
	if err := m.each(ctx, func(*listing) bool { return true }, func(ctx context.Context, l *listing) error { return l.begin(ctx) }); err != nil {
		return projector.SessionPage{}, err
	}
	var page projector.SessionPage
	if q.Before == "" && m.id != "" {
		h, err := st.exact(ctx, chunk.RootSession(tenant, m.id))
		if err != nil {
			return projector.SessionPage{}, err
		}
		if h.matches(q) {
			page.Sessions = append(page.Sessions, h.listed())
		} else {
			m.id = "" // it may be saved at this moment
		}
	}
	return m.page(ctx, page)
}

// merge merges the lists of the buckets.
type merge struct {
	all   []*listing
	query projector.SessionQuery
	id    string // of a session that is not merged: the text of the query is its id, so it is the first one of the list; "" for none
}

// each calls do for some buckets at the same time.
func (m *merge) each(ctx context.Context, some func(*listing) bool, do func(context.Context, *listing) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, l := range m.all {
		if some(l) {
			group.Go(func() error { return do(running, l) })
		}
	}
	return group.Wait()
}

// page appends the last saved heads of all buckets. A bucket whose next head is not known is read on before anything else is taken: its next head may be the last
// saved one.
func (m *merge) page(ctx context.Context, page projector.SessionPage) (projector.SessionPage, error) {
	more := func() (projector.SessionPage, error) {
		page.Next, page.Through, page.Scanned = m.cursor(), m.through(), m.scanned()
		return page, nil
	}
	unread := func(l *listing) bool { return len(l.found) == 0 && l.more() }
	for {
		for slices.ContainsFunc(m.all, unread) {
			if m.scanned() >= projector.MaxScan {
				return more()
			}
			if err := m.each(ctx, unread, m.read); err != nil {
				return projector.SessionPage{}, err
			}
		}
		next := m.next()
		switch {
		case next == nil:
			page.Scanned = m.scanned()
			return page, nil
		case len(page.Sessions) == m.query.Limit:
			return more()
		}
		info, selected := next.last().listed(), true
		if m.query.Select != nil {
			var proceed bool
			if selected, proceed = m.query.Select(info); !proceed {
				return more()
			}
		}
		if next.take(); selected {
			page.Sessions = append(page.Sessions, info)
		}
	}
}

// read takes one step back in a bucket, and keeps the heads that match.
func (m *merge) read(ctx context.Context, l *listing) error {
	heads, err := l.stepBack(ctx)
	if err != nil {
		return err
	}
	l.scanned += len(heads)
	if len(heads) > 0 { // a step may have heads of other tenants alone
		if l.reached = heads[0].stored; l.reached.Before(m.query.Since) {
			l.first = l.end // heads before it were saved earlier
		}
	}
	l.found = slices.DeleteFunc(heads, func(h listedHead) bool { return !h.matches(m.query) || h.session.ID == m.id })
	return nil
}

// next returns the listing with the last saved head, nil if no bucket has one.
func (m *merge) next() *listing {
	var last *listing
	for _, l := range m.all {
		if len(l.found) > 0 && (last == nil || l.last().stored.After(last.last().stored)) {
			last = l
		}
	}
	return last
}

func (m *merge) scanned() (n int) {
	for _, l := range m.all {
		n += l.scanned
	}
	return n
}

// through returns the time of the last save that is not on the page.
func (m *merge) through() (last time.Time) {
	for _, l := range m.all {
		at := l.reached
		if len(l.found) > 0 {
			at = l.last().stored
		} else if !l.more() {
			continue
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

// cursor returns the place of the next page: of each bucket the sequence before which its heads are on later pages.
func (m *merge) cursor() string {
	places := make([]string, len(m.all))
	for i, l := range m.all {
		at := l.end
		if len(l.found) > 0 {
			at = l.last().seq + 1
		}
		places[i] = strconv.FormatUint(at, 10)
	}
	return strings.Join(places, cursorSeparator)
}

const cursorSeparator = "."

// parseCursor returns the ends in a cursor, one for each bucket.
func parseCursor(cursor string, buckets int) ([]uint64, error) {
	ends := make([]uint64, buckets)
	if cursor == "" {
		for i := range ends {
			ends[i] = noEnd
		}
		return ends, nil
	}
	places := strings.Split(cursor, cursorSeparator)
	if len(places) != buckets {
		return nil, fmt.Errorf("%w: %.40q", projector.ErrBadCursor, cursor)
	}
	for i, place := range places {
		end, err := strconv.ParseUint(place, 10, 64)
		if err != nil || strconv.FormatUint(end, 10) != place {
			return nil, fmt.Errorf("%w: %.40q", projector.ErrBadCursor, cursor)
		}
		ends[i] = end
	}
	return ends, nil
}
