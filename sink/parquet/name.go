package parquet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// The tables, in the order in which a batch stores them.
const (
	tableObservations = "observations"
	tableGaps         = "gaps"
	tableEvents       = "events"
)

var tables = []string{tableObservations, tableGaps, tableEvents}

// name names a file.
type name struct {
	merged     bool // its rows are those of several files
	table      string
	date       string // YYYY-MM-DD
	partition  int
	generation int
	first      uint64
}

func (n name) String() string {
	kind := "p"
	if n.merged {
		kind = "m"
	}
	return fmt.Sprintf("%s/date=%s/%s%d-g%d-%020d.parquet", n.table, n.date, kind, n.partition, n.generation, n.first)
}

var namePattern = regexp.MustCompile(`^(events|observations|gaps)/date=(\d{4}-\d\d-\d\d)/([pm])(\d+)-g(\d+)-(\d{20})\.parquet$`)

// parseName reports false for an object that is not a file of a table.
func parseName(s string) (name, bool) {
	m := namePattern.FindStringSubmatch(s)
	if m == nil {
		return name{}, false
	}
	partition, err1 := strconv.Atoi(m[4])
	generation, err2 := strconv.Atoi(m[5])
	first, err3 := strconv.ParseUint(m[6], 10, 64)
	return name{merged: m[3] == "m", table: m[1], date: m[2], partition: partition, generation: generation, first: first}, err1 == nil && err2 == nil && err3 == nil
}

// file is a file of a table in a list.
type file struct {
	name

	size     int64
	modified time.Time
}

// sortFiles sorts files in the order of their ranges.
func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.generation, b.generation), cmp.Compare(a.first, b.first))
	})
}

// unknownDate is the date of files that begin at an unknown time.
const unknownDate = "1970-01-01"

func dateOf(t time.Time) string {
	if t.IsZero() {
		return unknownDate
	}
	return t.UTC().Format(time.DateOnly)
}

// schemaName names the file without rows that every table has, so that readers find its columns before there is another file.
func schemaName(table string) string { return table + "/date=" + unknownDate + "/schema.parquet" }
