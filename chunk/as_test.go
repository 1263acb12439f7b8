package chunk_test

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// As accepts the chunks of its type and no others.
func TestAsAcceptsOnlyItsType(t *testing.T) {
	guards := map[chunk.Type]func(chunk.Chunk) bool{
		chunk.TypeTextDelta: guard[chunk.TextDelta], chunk.TypeThinking: guard[chunk.Thinking],
		chunk.TypeToolArgStreamStart: guard[chunk.ToolArgStreamStart], chunk.TypeToolArgStreamDelta: guard[chunk.ToolArgStreamDelta],
		chunk.TypeToolArgStreamEnd: guard[chunk.ToolArgStreamEnd], chunk.TypeToolStart: guard[chunk.ToolStart],
		chunk.TypeToolEnd: guard[chunk.ToolEnd], chunk.TypeToolApprovalRequest: guard[chunk.ToolApprovalRequest],
		chunk.TypeToolApprovalResponse: guard[chunk.ToolApprovalResponse], chunk.TypeToolInputError: guard[chunk.ToolInputError],
		chunk.TypeToolOutputError: guard[chunk.ToolOutputError], chunk.TypeSubagentStart: guard[chunk.SubagentStart],
		chunk.TypeSubagentEnd: guard[chunk.SubagentEnd], chunk.TypeCustom: guard[chunk.Custom],
		chunk.TypeStatePatch: guard[chunk.StatePatch], chunk.TypeError: guard[chunk.Error], chunk.TypeOutput: guard[chunk.Output],
		chunk.TypeSourceURL: guard[chunk.SourceURL], chunk.TypeSourceDocument: guard[chunk.SourceDocument],
		chunk.TypeStepStart: guard[chunk.StepStart], chunk.TypeStepEnd: guard[chunk.StepEnd], chunk.TypeFile: guard[chunk.File],
		chunk.TypeRunInterrupted: guard[chunk.RunInterrupted], chunk.TypeRunResumed: guard[chunk.RunResumed],
		chunk.TypeRunPaused: guard[chunk.RunPaused], chunk.TypeExecutorSuperseded: guard[chunk.ExecutorSuperseded],
		chunk.TypeCheckpointCreated: guard[chunk.CheckpointCreated], chunk.TypeStepCommitted: guard[chunk.StepCommitted],
		chunk.TypeStepDiscarded: guard[chunk.StepDiscarded], chunk.TypeStreamResync: guard[chunk.StreamResync],
		chunk.TypeSuspensionMarker: guard[chunk.SuspensionMarker],
		"hologram_frame":           guard[chunk.Opaque],
	}
	for _, s := range chunktest.All() {
		for typ, is := range guards {
			if is(s.Chunk) != (s.Chunk.Type() == typ) {
				t.Errorf("%s as %s: %v", s.Name, typ, is(s.Chunk))
			}
		}
	}
	catalogued := slices.DeleteFunc(chunktest.Types(), chunk.Type.Control)
	if len(catalogued) != 31 || len(guards) != 32 {
		t.Errorf("%d types and %d guards, want 31 and one for the unknown", len(catalogued), len(guards))
	}
}

func guard[T chunk.Body](c chunk.Chunk) bool {
	_, ok := chunk.As[T](c)
	return ok
}
