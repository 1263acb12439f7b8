package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// pair is one comparison: the same units of work done by us and by the floor.
type pair struct {
	name  string
	unit  string // what is counted, e.g. "chunks"
	floor string // what the floor is, in a few words
	aim   float64
	ours  work
	raw   work
}

// work does the work of one round and says how many units that were and how
// long the measured part took; setting up and checking are not measured.
type work func(ctx context.Context, round int) (units int, took time.Duration, err error)

// Row is the outcome of one comparison.
type Row struct {
	Name  string
	Unit  string
	Floor string
	Ours  float64 // median units per second
	Raw   float64 // the same of the floor
	Ratio float64 // median over rounds of ours/floor
	Low   float64 // smallest and …
	High  float64 // … largest ratio of a round
	Aim   float64
}

// run measures both sides in turn, and who goes first changes with the round, so
// that a drift of the machine's speed falls on both. The first round of each is a warm-up.
func (p pair) run(ctx context.Context, rounds int) (Row, error) {
	var ours, raw, ratios []float64
	for round := range rounds + 1 {
		first, second := p.raw, p.ours
		if round%2 == 1 {
			first, second = p.ours, p.raw
		}
		a, err := rate(ctx, first, round)
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", p.name, err)
		}
		b, err := rate(ctx, second, round)
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", p.name, err)
		}
		if round%2 == 1 {
			a, b = b, a
		}
		if round > 0 {
			raw, ours, ratios = append(raw, a), append(ours, b), append(ratios, b/a)
		}
	}
	return Row{
		Name: p.name, Unit: p.unit, Floor: p.floor, Aim: p.aim,
		Ours: median(ours), Raw: median(raw), Ratio: median(ratios), Low: slices.Min(ratios), High: slices.Max(ratios),
	}, nil
}

func rate(ctx context.Context, w work, round int) (float64, error) {
	units, took, err := w(ctx, round)
	if err != nil {
		return 0, err
	}
	return float64(units) / took.Seconds(), nil
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "BENCHMARK\tOURS/S\tFLOOR/S\tRATIO\tLOW..HIGH\tAIM\tFLOOR IS")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%.0f %s\t%.0f\t%.2f\t%.2f..%.2f\t%.2f\t%s\n", r.Name, r.Ours, r.Unit, r.Raw, r.Ratio, r.Low, r.High, r.Aim, r.Floor)
	}
	return tw.Flush()
}
