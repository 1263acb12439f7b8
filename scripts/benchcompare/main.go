// Command benchcompare compares the figures of two versions, for scripts/bench-compare.sh.
//
//	benchcompare <directory>
//
// The directory holds old.1.json, new.1.json, old.2.json and so on, each of them the output of one
// run of the benchmark with --json.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// worse is the loss from which a figure is marked.
const worse = 0.03

// row is a line of the benchmark's output. Ratio is nil if the baseline lacks the figure.
type row struct {
	Name   string   `json:"name"`
	Figure string   `json:"figure"`
	Ours   float64  `json:"ours"`
	Ratio  *float64 `json:"ratio"`
}

// key identifies a figure. Baselines have no name of their own, so they are counted.
type key struct {
	name, figure string
	baseline     int
}

// figure has the values of all runs, by version.
type figure struct {
	key

	bare   bool // the baseline lacks it, so the values are ours and not ratios
	values map[string][]float64
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: benchcompare <directory>")
		os.Exit(2)
	}
	figures, err := load(os.Args[1])
	if err == nil {
		err = write(os.Stdout, figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare:", err)
		os.Exit(1)
	}
}

func load(dir string) ([]*figure, error) {
	var all []*figure
	for run := 1; ; run++ {
		for _, version := range []string{"old", "new"} {
			rows, err := read(filepath.Join(dir, fmt.Sprintf("%s.%d.json", version, run)))
			if errors.Is(err, os.ErrNotExist) && version == "old" && run > 1 {
				return all, nil
			}
			if err != nil {
				return nil, err
			}
			all = add(all, version, rows)
		}
	}
}

func read(path string) ([]row, error) {
	file, err := os.Open(path) //nolint:gosec // the caller named the directory
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var rows []row
	for dec := json.NewDecoder(file); ; {
		var r row
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
}

// add appends the rows of one run of a version.
func add(all []*figure, version string, rows []row) []*figure {
	baselines := make(map[key]int)
	for _, r := range rows {
		k := key{name: r.Name, figure: r.Figure}
		baselines[k]++
		k.baseline = baselines[k]
		at := slices.IndexFunc(all, func(f *figure) bool { return f.key == k })
		if at < 0 {
			at = len(all)
			all = append(all, &figure{key: k, bare: r.Ratio == nil, values: make(map[string][]float64)})
		}
		value := r.Ours
		if r.Ratio != nil {
			value = *r.Ratio
		}
		all[at].values[version] = append(all[at].values[version], value)
	}
	return all
}

func write(w io.Writer, figures []*figure) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "BENCHMARK\tFIGURE\tBASELINE\tOLD\tNEW\tNEW/OLD\tLOW..HIGH\tNOTE")
	for _, f := range figures {
		before, after := f.values["old"], f.values["new"]
		if len(before) != len(after) {
			fmt.Fprintf(tw, "%s\t%s\t%d\t-\t-\t-\t-\tin %d runs of old and %d of new\n", f.name, f.figure, f.baseline, len(before), len(after))
			continue
		}
		quotients := make([]float64, len(before))
		for i := range before {
			quotients[i] = after[i] / before[i]
		}
		old, now := median(before), median(after)
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f..%.3f\t%s\n", f.name, f.figure, f.baseline, old, now, now/old,
			slices.Min(quotients), slices.Max(quotients), f.note(now/old))
	}
	return tw.Flush()
}

// note marks what is worse: rates shall be high, all other figures low.
func (f *figure) note(quotient float64) string {
	var notes []string
	if loss := quotient - 1; strings.HasSuffix(f.figure, "/s") && -loss > worse || !strings.HasSuffix(f.figure, "/s") && loss > worse {
		notes = append(notes, fmt.Sprintf("%.0f %% worse", 100*math.Abs(loss)))
	}
	if f.bare {
		notes = append(notes, "no baseline: the figure itself")
	}
	return strings.Join(notes, ", ")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
