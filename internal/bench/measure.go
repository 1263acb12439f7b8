package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// pair is one comparison: the same work done by us and by the floor.
type pair struct {
	name  string
	floor string // what the floor is, in a few words
	aims  []aim
	ours  work
	raw   work
	once  bool // it gives the same each time
}

// work does the work of one round and says what it measured; setting up and
// checking are not measured.
type work func(ctx context.Context, round int) (figures, error)

// figure is one thing that was measured; its name says the unit.
type figure struct {
	name  string
	value float64
}

type figures []figure

// of returns the figure of that name, and NaN if that side does not have it.
func (f figures) of(name string) float64 {
	for _, figure := range f {
		if figure.name == name {
			return figure.value
		}
	}
	return math.NaN()
}

const chunksPerSecond = "chunks/s"

func rate(chunks int, took time.Duration) figures {
	return figures{{chunksPerSecond, float64(chunks) / took.Seconds()}}
}

// aim is what a figure shall come to. Members that are 0 are not asked for.
type aim struct {
	figure               string
	atLeast, atMost      float64 // ours
	ratioFrom, ratioUpTo float64 // ours/floor
	aboveTheFloorAtMost  float64 // ours-floor
}

// String says it in the words of the table.
func (a aim) String() string {
	var parts []string
	for _, part := range []struct {
		format string
		bound  float64
	}{
		{">= %s", a.atLeast},
		{"<= %s", a.atMost},
		{">= %sx", a.ratioFrom},
		{"<= %sx", a.ratioUpTo},
		{"<= floor + %s", a.aboveTheFloorAtMost},
	} {
		if part.bound != 0 {
			parts = append(parts, fmt.Sprintf(part.format, number(part.bound)))
		}
	}
	return strings.Join(parts, ", ")
}

// met tells whether a row reaches it.
func (a aim) met(r Row) bool {
	return (a.atLeast == 0 || r.Ours >= a.atLeast) &&
		(a.atMost == 0 || r.Ours <= a.atMost) &&
		(a.ratioFrom == 0 || r.Ratio >= a.ratioFrom) &&
		(a.ratioUpTo == 0 || r.Ratio <= a.ratioUpTo) &&
		(a.aboveTheFloorAtMost == 0 || r.Ours-r.Raw <= a.aboveTheFloorAtMost)
}

// Row is one figure of a comparison. What the floor does not have is NaN.
type Row struct {
	Name   string
	Figure string // with its unit
	Floor  string
	Ours   float64 // median over the rounds
	Raw    float64 // the same of the floor
	Ratio  float64 // median over the rounds of ours/floor
	Low    float64 // smallest and …
	High   float64 // … largest ratio of a round
	Aim    string  // empty when there is none
	Met    bool
}

// run measures both sides in turn, and who goes first changes with the round, so
// that a drift of the machine's speed falls on both. The first round of each is a warm-up.
func (p pair) run(ctx context.Context, rounds int) ([]Row, error) {
	var ours, raw []figures
	warm := 1
	if p.once {
		warm, rounds = 0, 1
	}
	for round := range rounds + warm {
		first, second := p.labelled("floor", p.raw), p.labelled("ours", p.ours)
		if round%2 == 1 {
			first, second = second, first
		}
		a, err := first(ctx, round)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		b, err := second(ctx, round)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if round%2 == 1 {
			a, b = b, a
		}
		if round >= warm {
			raw, ours = append(raw, a), append(ours, b)
		}
	}
	var rows []Row
	for _, f := range ours[0] {
		rows = append(rows, p.row(f.name, ours, raw))
	}
	return rows, nil
}

// labelled has a profile tell the sides apart, also in the goroutines they start.
func (p pair) labelled(side string, do work) work {
	return func(ctx context.Context, round int) (f figures, err error) {
		pprof.Do(ctx, pprof.Labels("bench", p.name, "side", side), func(ctx context.Context) { f, err = do(ctx, round) })
		return f, err
	}
}

func (p pair) row(name string, ours, raw []figures) Row {
	var us, floor, ratios []float64
	for i := range ours {
		us, floor = append(us, ours[i].of(name)), append(floor, raw[i].of(name))
		ratios = append(ratios, us[i]/floor[i])
	}
	row := Row{
		Name: p.name, Figure: name, Floor: p.floor,
		Ours: median(us), Raw: median(floor), Ratio: median(ratios), Low: slices.Min(ratios), High: slices.Max(ratios),
	}
	for _, a := range p.aims {
		if a.figure == name {
			row.Aim, row.Met = a.String(), a.met(row)
		}
	}
	return row
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "BENCHMARK\tFIGURE\tOURS\tFLOOR\tRATIO\tLOW..HIGH\tAIM\tMET\tFLOOR IS")
	for _, r := range rows {
		met := "-"
		if r.Aim != "" {
			met = map[bool]string{true: "yes", false: "no"}[r.Met]
		}
		ratio, spread := "-", "-"
		if !math.IsNaN(r.Ratio) {
			ratio, spread = fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f..%.2f", r.Low, r.High)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Figure, number(r.Ours), number(r.Raw), ratio, spread, cmp.Or(r.Aim, "-"), met, r.Floor)
	}
	return tw.Flush()
}

// number prints three digits or more, and no more than tell something.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
