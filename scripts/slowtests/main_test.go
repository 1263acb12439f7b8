package main

import (
	"maps"
	"strings"
	"testing"
)

// ran returns a report of one package with tests that took these times.
func ran(seconds map[string]float64) *report {
	r := newReport(nil)
	r.seconds, r.packages["p"] = seconds, true
	return r
}

func TestCompare(t *testing.T) {
	rows := map[string]row{"p TestA": {30, "a cluster"}, "p TestB": {60, "a timeout"}, "other TestC": {30, "not run"}}
	for name, tt := range map[string]struct {
		seconds map[string]float64
		alone   float64
		want    string // in the only problem
	}{
		"as in the table":              {map[string]float64{"p TestA": 30, "p TestB": 60, "p TestFast": 19}, 41, ""},
		"a slow test":                  {map[string]float64{"p TestA": 30, "p TestB": 60, "p TestFast": 50}, 41, "p TestFast took 50 s, and 41 s alone"},
		"a slow test, alone fast":      {map[string]float64{"p TestA": 30, "p TestB": 60, "p TestFast": 50}, 39, ""},
		"a slow test, alone it fails":  {map[string]float64{"p TestA": 30, "p TestB": 60, "p TestFast": 50}, 0, "p TestFast took 50 s, and 0 s alone"},
		"a machine that is busy":       {map[string]float64{"p TestA": 90, "p TestB": 180, "p TestFast": 119}, 121, ""},
		"a slow test on it":            {map[string]float64{"p TestA": 90, "p TestB": 180, "p TestFast": 121}, 122, "p TestFast took 121 s"},
		"a machine that is fast":       {map[string]float64{"p TestA": 3, "p TestB": 6, "p TestFast": 39}, 41, ""},
		"a row of a test that is gone": {map[string]float64{"p TestA": 30}, 1, "has a row of p TestB, which is gone"},
	} {
		problems := compare(rows, ran(tt.seconds), func(string) float64 { return tt.alone })
		if got := strings.Join(problems, "\n"); len(problems) > 1 || (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if problems := compare(rows, newReport(nil), nil); len(problems) > 0 {
		t.Errorf("nothing was run: %q", problems)
	}
}

func TestTable(t *testing.T) {
	rows, err := parse(table)
	if err != nil {
		t.Fatal(err)
	}
	if got := format(rows); got != table {
		t.Errorf("the table is not sorted:\n%s", got)
	}
	for name, row := range rows {
		if strings.Contains(row.reason, "TODO") {
			t.Errorf("%s: want a reason", name)
		}
	}
	for _, text := range []string{"p TestA 30\n", "p TestA soon why\n", "p TestA 0 why\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is a row", text)
		}
	}
}

func TestUpdated(t *testing.T) {
	rows := map[string]row{"p TestA": {30, "a cluster"}, "p TestB": {60, "a timeout"}, "other TestC": {30, "not run"}}
	got := updated(rows, ran(map[string]float64{"p TestA": 40, "p TestNew": 21, "p TestB": 3}))
	if want := (map[string]row{"p TestA": {40, "a cluster"}, "p TestNew": {21, "TODO: why?"}, "other TestC": {30, "not run"}}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The report prints failures and the lines of packages.
func TestReport(t *testing.T) {
	const prefix = `{"Package":"github.com/tailrace/tailrace/internal/p",`
	var out strings.Builder
	r := newReport(&out)
	r.read(strings.NewReader(strings.Join([]string{
		`{"ImportPath":"q","Action":"build-output","Output":"q.go:1: no\n"}`,
		prefix + `"Action":"output","Test":"TestA","Output":"=== RUN TestA\n"}`,
		prefix + `"Action":"output","Test":"TestA","Output":"log of A\n"}`,
		prefix + `"Action":"pass","Test":"TestA","Elapsed":1.5}`,
		prefix + `"Action":"output","Test":"TestB/x","Output":"x is wrong\n"}`,
		prefix + `"Action":"fail","Test":"TestB/x","Elapsed":3}`,
		prefix + `"Action":"output","Test":"TestB","Output":"--- FAIL: TestB\n"}`,
		prefix + `"Action":"fail","Test":"TestB","Elapsed":4}`,
		prefix + `"Action":"output","Test":"TestC","Output":"panic: C\n"}`,
		prefix + `"Action":"output","Output":"PASS\n"}`,
		prefix + `"Action":"output","Output":"FAIL p 9s\n"}`,
		prefix + `"Action":"fail","Elapsed":9}`,
		`not JSON`,
	}, "\n")))
	if want := "q.go:1: no\nx is wrong\n--- FAIL: TestB\npanic: C\nFAIL p 9s\nnot JSON"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if want := (map[string]float64{"internal/p TestA": 1.5, "internal/p TestB": 4}); !maps.Equal(r.seconds, want) || r.packages["internal/p"] {
		t.Errorf("times %v, packages %v", r.seconds, r.packages)
	}
}
