package postgres

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// record is a record of a log and its rows.
type record struct {
	at           row.Position
	event        *row.Event
	observations []row.Observation
	gaps         []row.Gap
}

// batchOf returns the rows of records, which are at least one.
func batchOf(records []record) *row.Batch {
	b := &row.Batch{Through: records[len(records)-1].at}
	for _, r := range records {
		if r.event != nil {
			b.Events = append(b.Events, *r.event)
		}
		b.Observations = append(b.Observations, r.observations...)
		b.Gaps = append(b.Gaps, r.gaps...)
	}
	return b
}

var firstTime = time.Date(2026, 11, 28, 12, 0, 0, 123456000, time.UTC)

// drawLog returns records after a position, in another history if generation is higher.
func drawLog(t *rapid.T, after row.Position, generation, n int) []record {
	records := make([]record, n)
	at := after
	at.Generation, at.History = generation, fmt.Sprintf("history%d", generation)
	if at.StoredAt.IsZero() {
		at.StoredAt = firstTime
	}
	for i := range records {
		at.Seq += chunk.Seq(rapid.IntRange(1, 3).Draw(t, "step"))
		at.StoredAt = at.StoredAt.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 1000, 3600e3, 9 * 24 * 3600e3}).Draw(t, "ms")) * time.Millisecond)
		at.Anchor = chunk.AnchorAt(at.StoredAt)
		records[i] = drawRecord(t, at)
	}
	return records
}

func drawRecord(t *rapid.T, at row.Position) record {
	tenant, root := rapid.SampledFrom([]string{"acme", "zeta"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "root")
	place := row.Place{
		StreamEpoch: at.History, Partition: int32(at.Partition), Seq: int64(at.Seq), StoredAt: at.StoredAt,
		Tenant: tenant, Root: root, Session: rapid.SampledFrom([]string{root, root, root + "-sub"}).Draw(t, "session"),
	}
	r := record{at: at}
	switch rapid.IntRange(0, 11).Draw(t, "record") {
	case 0:
		r.gaps = []row.Gap{{Place: place, Reason: row.Deleted, ToSeq: new(place.Seq)}}
	case 1:
		first := rapid.Int64Range(1, 8).Draw(t, "from")
		r.gaps = []row.Gap{{Place: place, Reason: row.Removed, FromOrdinal: first, ToOrdinal: first + 1}, {Place: place, Reason: row.Removed, FromOrdinal: first + 3, ToOrdinal: first + 3}}
	case 2:
		r.gaps = []row.Gap{{Place: place, Reason: row.Malformed, FromSeq: new(place.Seq), ToSeq: new(place.Seq), Detail: text.Draw(t, "detail")}}
	default:
		r.observations = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) row.Observation { return drawObservation(t, place) }), 0, 3).Draw(t, "observations")
	}
	if rapid.IntRange(0, 4).Draw(t, "event") > 0 {
		r.event = &row.Event{
			Place: place, Epoch: 1, Ordinal: place.Seq, Type: "text_delta", Time: at.StoredAt, RunID: text.Draw(t, "run"), Bytes: 3, Fenced: rapid.Bool().Draw(t, "fenced"),
			Body: rapid.SampledFrom([]row.JSON{"", quoted(text.Draw(t, "body")), `{"b":1,"a":[ ],"a":"\u0000\ud800"}`}).Draw(t, "json"),
		}
	}
	return r
}

var text = rapid.Custom(func(t *rapid.T) string { return row.Text(rapid.String().Draw(t, "text")) })

func drawObservation(t *rapid.T, place row.Place) row.Observation {
	number := rapid.Int64Range(1, 8).Draw(t, "number")
	kind := rapid.SampledFrom([]row.Kind{row.Run, row.Run, row.Step, row.Tool, row.Approval, row.ClientTool}).Draw(t, "kind")
	start := firstTime.Add(time.Duration(number)*time.Minute + time.Duration(len(place.Session))*time.Second)
	o := row.Observation{
		Place: place, ID: fmt.Sprintf("%s/%s/%s/%s/%d", place.Tenant, place.Root, place.Session, kind, number), Kind: kind,
		Status:    rapid.SampledFrom([]row.Status{row.Running, row.Waiting, row.Completed, row.Failed}).Draw(t, "status"),
		StartTime: start, UserID: text.Draw(t, "user"), TurnID: rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(t, "turn"),
		ErrorCode: rapid.SampledFrom([]string{"", "timeout"}).Draw(t, "code"), Input: quoted(text.Draw(t, "input")),
		Depth: int64(len(place.Session) - len(place.Root)), FirstSeq: min(number, place.Seq), FirstOrdinal: number, LastOrdinal: number,
	}
	if rapid.Bool().Draw(t, "ended") {
		o.EndTime, o.DurationMS = new(start.Add(time.Second)), new(int64(1000))
		o.Steps, o.ToolCalls, o.FailedToolCalls = new(int64(2)), new(int64(3)), new(int64(1))
		o.InputTokens = new(rapid.Int64Range(0, 1e6).Draw(t, "tokens"))
	}
	if rapid.Bool().Draw(t, "paid") {
		o.Cost, o.Currency = new(row.Money(rapid.Int64Range(0, 1e15).Draw(t, "cost"))), rapid.SampledFrom([]string{"USD", "USD", "EUR"}).Draw(t, "currency")
	}
	return o
}

// model has the rows that a store must have.
type model struct {
	events       map[string]row.Event
	observations map[string]row.Observation
	gaps         map[string]row.Gap
}

func newModel() *model {
	return &model{events: map[string]row.Event{}, observations: map[string]row.Observation{}, gaps: map[string]row.Gap{}}
}

func (m *model) apply(records []record) {
	for _, r := range records {
		if r.event != nil {
			m.events[fmt.Sprintf("%s %09d", r.event.StreamEpoch, r.event.Seq)] = *r.event
		}
		for _, o := range r.observations {
			m.observations[o.ID] = o
		}
		for _, g := range r.gaps {
			m.gaps[fmt.Sprintf("%s %09d %s %09d", g.StreamEpoch, g.Seq, g.Reason, g.FromOrdinal)] = g
			if g.Erases() {
				maps.DeleteFunc(m.events, func(_ string, e row.Event) bool { return g.Covers(&e.Place) })
				maps.DeleteFunc(m.observations, func(_ string, o row.Observation) bool { return g.Covers(&o.Place) })
			}
		}
	}
}

func sorted[T any](rows map[string]T) (values []T) {
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		values = append(values, rows[key])
	}
	return values
}

func (m *model) contents() contents {
	return contents{Events: sorted(m.events), Observations: sorted(m.observations), Gaps: sorted(m.gaps)}
}
