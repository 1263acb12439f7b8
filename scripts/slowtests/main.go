// Command slowtests runs `go test` and compares the slow tests with a table. It prints what `go test` prints.
//
//	slowtests [-update] -race -p 4 ./...
//
// A test that takes more than 20 seconds needs a row in slow.txt, with its time in the run that wrote the table and the reason. A busy machine makes all tests
// slower, those of the table too: the median of their times, compared with those of the table, is the measure of the machine. A test without a row fails at twice
// the bound by that measure, if it also does when it runs again alone: another load of the machine during that one test is no fault of the test.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const (
	tablePath = "scripts/slowtests/slow.txt"
	module    = "github.com/tailrace/tailrace/"

	maxSeconds = 20.0 // of a test without a row
	tolerance  = 2.0  // for the times of one run
)

//go:embed slow.txt
var table string

func main() {
	args := os.Args[1:]
	update := len(args) > 0 && args[0] == "-update"
	if update {
		args = args[1:]
	}
	os.Exit(run(args, update))
}

func run(args []string, update bool) int {
	rows, err := parse(table)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:gosec,noctx // the arguments of the caller; it runs to its end
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	r := newReport(os.Stdout)
	r.read(out)
	if err := cmd.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if update {
		if err := os.WriteFile(tablePath, []byte(format(updated(rows, r))), 0o644); err != nil { //nolint:gosec // a file of the repository
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return 0
	}
	problems := compare(rows, r, alone(args))
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	return min(len(problems), 1)
}

// row is a line of the table: the time in the run that wrote it, and why the test needs it.
type row struct {
	seconds float64
	reason  string
}

// parse reads lines of package, test, seconds and reason.
func parse(text string) (map[string]row, error) {
	rows := map[string]row{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) < 4 {
			return nil, fmt.Errorf("%s: %q, want package, test, seconds and reason", tablePath, line)
		}
		seconds, err := strconv.ParseFloat(fields[2], 64)
		if err != nil || seconds <= 0 {
			return nil, fmt.Errorf("%s: %q: want seconds after the test", tablePath, line)
		}
		rows[fields[0]+" "+fields[1]] = row{seconds, fields[3]}
	}
	return rows, nil
}

func format(rows map[string]row) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "%s %.0f %s\n", name, rows[name].seconds, rows[name].reason)
	}
	return b.String()
}

// alone returns a function that runs one test with the flags of args, and returns its seconds, or 0 if it does not pass.
func alone(args []string) func(name string) float64 {
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, module) || strings.HasPrefix(arg, ".") })
	return func(name string) float64 {
		pkg, test, _ := strings.Cut(name, " ")
		cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, []string{"-count=1", "-run", "^" + test + "$", module + pkg})...) //nolint:gosec,noctx // as run
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		r := newReport(os.Stdout)
		r.read(bytes.NewReader(out))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s alone: %v\n", name, err)
			return 0
		}
		return r.seconds[name]
	}
}

// compare returns a line for each slow test without a row that is slow also alone, and for each row of a test that is gone from a package that was run.
func compare(rows map[string]row, r *report, alone func(name string) float64) (problems []string) {
	limit := maxSeconds * tolerance * machine(rows, r)
	for _, name := range slices.Sorted(maps.Keys(r.seconds)) {
		if _, ok := rows[name]; ok || r.seconds[name] <= limit {
			continue
		}
		if seconds := alone(name); seconds == 0 || seconds > limit {
			problems = append(problems, fmt.Sprintf("%s took %.0f s, and %.0f s alone: make it shorter, or add a row with the reason to %s", name, r.seconds[name], seconds, tablePath))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		pkg, _, _ := strings.Cut(name, " ")
		if _, ok := r.seconds[name]; !ok && r.packages[pkg] {
			problems = append(problems, fmt.Sprintf("%s has a row of %s, which is gone", tablePath, name))
		}
	}
	return problems
}

// machine returns how many times slower than in the table the tests of the table were, as the median, at least 1.
func machine(rows map[string]row, r *report) float64 {
	var ratios []float64
	for name, row := range rows {
		if seconds, ok := r.seconds[name]; ok {
			ratios = append(ratios, seconds/row.seconds)
		}
	}
	if len(ratios) == 0 {
		return 1
	}
	slices.Sort(ratios)
	return max(1, ratios[len(ratios)/2])
}

// updated returns the rows with the times of this run, without those of tests that are fast or gone, and with a row for each slow test, whose reason is to be
// written.
func updated(rows map[string]row, r *report) map[string]row {
	next := map[string]row{}
	for name, old := range rows {
		if pkg, _, _ := strings.Cut(name, " "); !r.packages[pkg] {
			next[name] = old
		}
	}
	for name, seconds := range r.seconds {
		if seconds > maxSeconds {
			reason := rows[name].reason
			if reason == "" {
				reason = "TODO: why?"
			}
			next[name] = row{seconds, reason}
		}
	}
	return next
}

// report collects the times of tests, and prints the output of `go test -json` as `go test` without -json and -v does.
type report struct {
	out      io.Writer
	seconds  map[string]float64       // by package and top-level test
	packages map[string]bool          // that were run
	pending  map[string]*bytes.Buffer // output of tests that run, and of packages, by package and test
}

func newReport(out io.Writer) *report {
	return &report{out, map[string]float64{}, map[string]bool{}, map[string]*bytes.Buffer{}}
}

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action  string  `json:"Action"`
	Package string  `json:"Package"`
	Test    string  `json:"Test"`
	Elapsed float64 `json:"Elapsed"`
	Output  string  `json:"Output"`
}

func (r *report) read(in io.Reader) {
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.add(e)
		} else {
			r.print(string(line))
		}
		if err != nil {
			return
		}
	}
}

func (r *report) add(e event) {
	pkg := strings.TrimPrefix(e.Package, module)
	test, _, isSubtest := strings.Cut(e.Test, "/")
	name, parent := pkg+" "+e.Test, pkg+" "+test
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "output":
		if strings.HasPrefix(e.Output, "=== ") || e.Test == "" && e.Output == "PASS\n" {
			return
		}
		if r.pending[name] == nil {
			r.pending[name] = &bytes.Buffer{}
		}
		r.pending[name].WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Test != "" {
			if !isSubtest {
				r.seconds[name] = e.Elapsed
			}
			r.end(name, parent, e.Action == "fail")
			return
		}
		if e.Action == "fail" { // the test that ended the process has no end
			for _, name := range slices.Sorted(maps.Keys(r.pending)) {
				if strings.HasPrefix(name, pkg+" ") && name != pkg+" " {
					r.flush(name)
				}
			}
		}
		if e.Action == "pass" {
			r.packages[pkg] = true
		}
		r.flush(name)
	}
}

// end prints the output of a test if it has failed. That of a subtest belongs to its test.
func (r *report) end(name, parent string, failed bool) {
	switch {
	case !failed:
		delete(r.pending, name)
	case name == parent:
		r.flush(name)
	case r.pending[name] != nil:
		if r.pending[parent] == nil {
			r.pending[parent] = &bytes.Buffer{}
		}
		r.pending[parent].Write(r.pending[name].Bytes())
		delete(r.pending, name)
	}
}

func (r *report) flush(name string) {
	if b := r.pending[name]; b != nil {
		r.print(b.String())
		delete(r.pending, name)
	}
}

func (r *report) print(text string) { fmt.Fprint(r.out, text) }
