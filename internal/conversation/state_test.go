package conversation

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
)

// TestCallsAreFoundByTheIDOfTheClient checks the answers to calls whose ids contain halves of surrogate pairs. A request has U+FFFD
// for each half. Without the same ids in the state every POST with the message of an old call would be rejected.
func TestCallsAreFoundByTheIDOfTheClient(t *testing.T) {
	const half = "\xed\xa0\x80"
	c, a := "c"+half+half, "a"+half+half
	s := begin(t).turn("m1").asks(c, a).resumes(c, a).ends()
	state := s.state()
	answers := []control.Answer{
		{Kind: control.ClientResult, CallID: "c\uFFFD\uFFFD", Result: chunk.Value(`1`)},
		{Kind: control.Approval, CallID: "a\uFFFD\uFFFD", ApprovalID: s.snap.TurnRun().ID + "::a\uFFFD\uFFFD", Approved: true},
	}
	got := Request{Request: dialect.Request{Answered: &dialect.Answered{Answers: answers}}}.sort(&state)
	if len(got.rejected) > 0 || !got.known {
		t.Fatalf("rejected: %+v, known: %t; want both answers to be known", got.rejected, got.known)
	}
}
