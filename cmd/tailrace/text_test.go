package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/projector"
)

// The names in an audit event come from clients and models: they neither end its line nor look like another member of it.
func TestAuditLineIsOneLine(t *testing.T) {
	line := auditLine(audit.Event{
		Time: time.Unix(0, 0), Act: audit.Approve, Outcome: audit.Done, Tenant: "acme", By: &chunk.Principal{Subject: "ann tenant=umbrella"},
		Call: "c1\n1970-01-01T00:00:00Z  approve      done      tenant=umbrella", Target: "\x1b[2J\u009b\u202e", Address: "192.0.2.7",
	})
	want := `1970-01-01T00:00:00Z  approve      done      tenant=acme subject="ann tenant=umbrella" ` +
		`call="c1\n1970-01-01T00:00:00Z  approve      done      tenant=umbrella" target="\x1b[2J\u009b\u202e" address=192.0.2.7`
	if line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

// What a snapshot stores is the text of an agent: no control sequence of it reaches the terminal.
func TestVerifyPrintsNoControlSequences(t *testing.T) {
	var out strings.Builder
	found := &tally{out: &out, progress: io.Discard, count: map[string]int{}}
	err := found.add(verifyLine(projector.VerifyResult{Differences: []projector.Difference{{Member: "state", Stored: "\"a\u009b2J\""}}}))
	if err != nil || strings.ContainsRune(out.String(), 0x9b) || !strings.Contains(out.String(), "\n  state\n    stored \"a2J\"\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
