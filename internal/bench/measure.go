package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// pair is one comparison: the same work done by Tailrace and by the baseline.
type pair struct {
	name     string
	baseline string // short description of the baseline
	targets  []target
	ours     work
	raw      work
	once     bool // the result is the same each time
}

// work does the work of one round and returns its figures; setup and checks are
// not measured.
type work func(ctx context.Context, round int) (figures, error)

// figure is one measured value; its name contains the unit.
type figure struct {
	name  string
	value float64
}

type figures []figure

// of returns the figure of that name, or NaN if the side does not have it.
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

// costOf returns the processor time of each of n things that do does, in microseconds.
func costOf(n int, do func() error) (float64, error) {
	used, err := usedBy(processorTime, do)
	return micros(used) / float64(n), err
}

// usedBy returns the processor time that is used while do runs.
func usedBy(processor func() (time.Duration, error), do func() error) (time.Duration, error) {
	before, err := processor()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := processor()
	return after - before, err
}

// target is the target of a figure. Fields that are 0 do not apply.
type target struct {
	figure                    string
	atLeast, atMost           float64 // ours
	ratioAtLeast, ratioAtMost float64 // Tailrace / baseline
	aboveBaselineAtMost       float64 // Tailrace - baseline
}

// String formats the target for the table.
func (a target) String() string {
	var parts []string
	for _, part := range []struct {
		format string
		bound  float64
	}{
		{">= %s", a.atLeast},
		{"<= %s", a.atMost},
		{">= %sx", a.ratioAtLeast},
		{"<= %sx", a.ratioAtMost},
		{"<= baseline + %s", a.aboveBaselineAtMost},
	} {
		if part.bound != 0 {
			parts = append(parts, fmt.Sprintf(part.format, number(part.bound)))
		}
	}
	return strings.Join(parts, ", ")
}

// met reports whether a row meets the target.
func (a target) met(r Row) bool {
	return (a.atLeast == 0 || r.Value >= a.atLeast) &&
		(a.atMost == 0 || r.Value <= a.atMost) &&
		(a.ratioAtLeast == 0 || r.Ratio >= a.ratioAtLeast) &&
		(a.ratioAtMost == 0 || r.Ratio <= a.ratioAtMost) &&
		(a.aboveBaselineAtMost == 0 || r.Value-r.BaselineValue <= a.aboveBaselineAtMost)
}

// Row is one figure of a comparison. A value that the baseline does not have is
// NaN.
type Row struct {
	Name          string
	Figure        string // with its unit
	Baseline      string
	Value         float64 // median over the rounds
	BaselineValue float64 // median of the baseline
	Ratio         float64 // median over the rounds of Tailrace / baseline
	Low           float64 // smallest and …
	High          float64 // … largest ratio of a round
	Target        string  // empty when there is none
	TargetMet     bool
}

// run measures both sides alternately. The first side changes with the round, so that a
// drift of the machine's speed affects both. The first round of each side is a warm-up.
func (p pair) run(ctx context.Context, rounds int) ([]Row, error) {
	var ours, raw []figures
	warm := 1
	if p.once {
		warm, rounds = 0, 1
	}
	for round := range rounds + warm {
		first, second := p.withLabels("baseline", p.raw), p.withLabels("tailrace", p.ours)
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

// withLabels labels the side in profiles, also in the goroutines it starts.
func (p pair) withLabels(side string, do work) work {
	return func(ctx context.Context, round int) (f figures, err error) {
		pprof.Do(ctx, pprof.Labels("bench", p.name, "side", side), func(ctx context.Context) { f, err = do(ctx, round) })
		return f, err
	}
}

func (p pair) row(name string, ours, raw []figures) Row {
	var us, base, ratios []float64
	for i := range ours {
		us, base = append(us, ours[i].of(name)), append(base, raw[i].of(name))
		ratios = append(ratios, us[i]/base[i])
	}
	row := Row{
		Name: p.name, Figure: name, Baseline: p.baseline,
		Value: median(us), BaselineValue: median(base), Ratio: median(ratios), Low: slices.Min(ratios), High: slices.Max(ratios),
	}
	for _, a := range p.targets {
		if a.figure == name {
			row.Target, row.TargetMet = a.String(), a.met(row)
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
	fmt.Fprintln(tw, "BENCHMARK\tFIGURE\tVALUE\tBASELINE\tRATIO\tLOW..HIGH\tTARGET\tMET\tCOMPARED WITH")
	for _, r := range rows {
		met := "-"
		if r.Target != "" {
			met = map[bool]string{true: "yes", false: "no"}[r.TargetMet]
		}
		ratio, spread := "-", "-"
		if !math.IsNaN(r.Ratio) {
			ratio, spread = fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f..%.2f", r.Low, r.High)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Figure, number(r.Value), number(r.BaselineValue), ratio, spread, cmp.Or(r.Target, "-"), met, r.Baseline)
	}
	return tw.Flush()
}

// jsonRow is a row of PrintJSON. BaselineValue and Ratio are absent if the baseline lacks
// the figure.
type jsonRow struct {
	Name          string   `json:"name"`
	Figure        string   `json:"figure"`
	Baseline      string   `json:"baseline"`
	Value         float64  `json:"ours"`
	BaselineValue *float64 `json:"raw,omitempty"`
	Ratio         *float64 `json:"ratio,omitempty"`
}

// PrintJSON writes each row as a line of JSON, with all digits, for programs that compare runs.
func PrintJSON(w io.Writer, rows []Row) error {
	enc := json.NewEncoder(w)
	for _, r := range rows {
		line := jsonRow{Name: r.Name, Figure: r.Figure, Baseline: r.Baseline, Value: r.Value, BaselineValue: finite(r.BaselineValue), Ratio: finite(r.Ratio)}
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("%s, %s: %w", r.Name, r.Figure, err)
		}
	}
	return nil
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// number formats v with at least three significant digits.
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
