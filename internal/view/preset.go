package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Public is the preset for end users. It shows the text of the agent, the fact that tools run and wait for approval, sources, files, and the users' own
// messages. It hides reasoning, the input and output of tools, sub-agents, custom events, state, models, usage, the texts of errors and structured output.
const Public = "public"

var presets = map[string]View{
	Public: {
		Types: []chunk.Type{
			chunk.TypeTextDelta, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeFile,
			chunk.TypeToolArgStreamStart, chunk.TypeToolArgStreamEnd, chunk.TypeToolStart, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError,
			chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse,
			chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeError,
			chunk.TypeRunStarted, chunk.TypeRunPaused, chunk.TypeRunResumed, chunk.TypeRunInterrupted, chunk.TypeStreamResync,
		},
		Hide: map[chunk.Type][]string{
			chunk.TypeToolStart:            {"arguments"},
			chunk.TypeToolEnd:              {"result", "error", "errorCode"},
			chunk.TypeToolInputError:       {"error", "partialInput"},
			chunk.TypeToolOutputError:      {"error"},
			chunk.TypeToolApprovalRequest:  {"input"},
			chunk.TypeToolApprovalResponse: {"reason"},
			chunk.TypeStepEnd:              {"usage", "model", "requestModel", "provider"},
			chunk.TypeError:                {"error", "code", "errorDetail"},
			chunk.TypeRunStarted:           {"input.metadata", "checkpointId", "parent", "by", "model", "provider"},
			chunk.TypeRunPaused:            {"reason"},
			chunk.TypeRunResumed:           {"fromCheckpointId"},
			chunk.TypeRunInterrupted:       {"checkpointId", "reason"},
		},
	},
}

// withPreset returns v with its preset merged in.
func (v View) withPreset() (View, error) {
	if v.Preset == "" {
		return v, nil
	}
	p, known := presets[v.Preset]
	if !known {
		return v, fmt.Errorf("preset %q: want %q", v.Preset, Public)
	}
	v.Types = slices.Concat(p.Types, v.Types)
	hide := maps.Clone(p.Hide)
	for t, paths := range v.Hide {
		hide[t] = slices.Concat(hide[t], paths)
	}
	v.Hide = hide
	return v, nil
}
