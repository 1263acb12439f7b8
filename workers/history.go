package workers

import (
	"slices"

	"github.com/tailrace/tailrace/projector/fold"
)

// Message is one entry of the history in the form that models use: a user message, or the output of one step.
type Message = fold.Message

// Part is one part of a message.
type Part = fold.Part

// File is a file in a message.
type File = fold.File

// ToolCall is a tool call with its outcome.
type ToolCall = fold.ToolCall

// CallState is the state of a call.
type CallState = fold.CallState

// The states of a call.
const (
	CallStreaming        = fold.CallStreaming        // its input is incomplete
	CallOpen             = fold.CallOpen             // without an outcome
	CallAwaitingApproval = fold.CallAwaitingApproval // waits for a user's decision
	CallApproved         = fold.CallApproved         // approved and not yet run, see Step.ApprovedCalls
	CallDone             = fold.CallDone
	CallFailed           = fold.CallFailed
	CallDenied           = fold.CallDenied // a user has denied it
)

// withoutBoundaries removes the step boundaries, which are nothing to a model: each step is a message.
func withoutBoundaries(list []Message) []Message {
	for i := range list {
		list[i].Parts = slices.DeleteFunc(list[i].Parts, func(p Part) bool { return p.Kind == fold.PartStepStart })
	}
	return list
}
