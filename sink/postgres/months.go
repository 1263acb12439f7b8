package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/row"
)

// months are the months for which events has a partition, as far as the store has looked since the last Begin.
type months struct {
	mu    sync.Mutex
	known map[time.Time]bool
}

func (m *months) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = map[time.Time]bool{}
}

// unknown returns the months of events that are not known.
func (m *months) unknown(events []row.Event) (unknown []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var last time.Time
	for i := range events {
		month := monthOf(events[i].StoredAt)
		if i > 0 && month.Equal(last) {
			continue
		}
		last = month
		if !m.known[month] {
			unknown = append(unknown, month)
		}
	}
	return unknown
}

func (m *months) add(month time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[month] = true
}

// monthName is the layout of names of partitions, which sort by time.
const monthName = "events_2006_01"

func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// createMonths creates the partitions that a batch needs. A partition is created as a table and then attached: unlike CREATE TABLE … PARTITION OF, this does not wait
// for queries of events.
func (s *Store) createMonths(ctx context.Context, batch []row.Event) error {
	for _, month := range s.months.unknown(batch) {
		name := month.Format(monthName)
		err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockSchema); err != nil {
				return err
			}
			var exists bool
			if err := tx.QueryRow(ctx, `SELECT to_regclass('tailrace.' || $1) IS NOT NULL`, name).Scan(&exists); err != nil || exists {
				return err
			}
			const day = "2006-01-02 00:00:00+00"
			_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE tailrace.%[1]s (LIKE tailrace.events INCLUDING ALL);
				ALTER TABLE tailrace.events ATTACH PARTITION tailrace.%[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s')`,
				name, month.Format(day), month.AddDate(0, 1, 0).Format(day)))
			return err
		})
		if err != nil {
			return fmt.Errorf("create tailrace.%s: %w", name, err)
		}
		s.months.add(month)
	}
	return nil
}
