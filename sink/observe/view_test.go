package observe_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

var word = regexp.MustCompile(`canary[0-9]+x[0-9]+z`)

// numbered gives each occurrence of the word canary a number of its own.
func numbered(log sinktest.Log) sinktest.Log {
	log = slices.Clone(log)
	for i := range log {
		n := 0
		log[i].Data = regexp.MustCompile(`canary`).ReplaceAllFunc(log[i].Data, func(w []byte) []byte {
			n++
			return fmt.Appendf(nil, "%s%dx%dz", w, log[i].Seq, n)
		})
	}
	return log
}

// No row has a word that the view hides, and the columns without content are equal under each view.
func TestViewsHideContentAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := viewtest.Views().Draw(t, "view")
		log := numbered(logs(everything).Draw(t, "log"))
		shown := rowsOf(observe.Config{Show: v.Record, Deltas: true}, log)
		var visible bytes.Buffer
		for _, rec := range log {
			if rec, ok := v.Record(rec); ok {
				visible.Write(rec.Data)
			}
		}
		allowed := map[string]bool{}
		for _, w := range word.FindAllString(visible.String(), -1) {
			allowed[w] = true
		}
		for _, w := range word.FindAllString(fmt.Sprintf("%+v", shown), -1) {
			if !allowed[w] {
				t.Fatalf("a row has the hidden word %s\n%s", w, log)
			}
		}
		all := rowsOf(observe.Config{Deltas: true}, log)
		if diff := cmp.Diff(structure(all), structure(shown)); diff != "" {
			t.Fatalf("%s\n%s", diff, log)
		}
	})
}

// structure leaves out the columns with content.
func structure(b row.Batch) row.Batch {
	for i := range b.Observations {
		o := &b.Observations[i]
		o.Input, o.Output, o.Metadata, o.StatusMessage, o.ContentTruncated = "", "", "", "", false
	}
	for i := range b.Events {
		b.Events[i].Body = ""
	}
	return b
}

// The words are in the rows without a view.
func TestContentIsInTheRows(t *testing.T) {
	found := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		for _, o := range rowsOf(observe.Config{}, logs(everything).Draw(t, "log")).Observations {
			for column, text := range map[string]string{"input": string(o.Input), "output": string(o.Output), "metadata": string(o.Metadata), "status_message": o.StatusMessage} {
				if strings.Contains(text, "canary") {
					found[column] = true
				}
			}
		}
	})
	if len(found) != 4 {
		t.Errorf("words are in %v only", found)
	}
}
