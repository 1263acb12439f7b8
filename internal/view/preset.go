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

// Analytics is the preset for consumers that count and compare. It shows users' texts and answers, with sub-agents, usage, ids, statuses, and codes and texts of
// errors. It masks the inputs and results of tools, and hides reasoning, pieces of inputs, the state, which repeats them, and metadata of users' messages.
const Analytics = "analytics"

// None is the preset that shows the events of the stream without content, as the zero View.
const None = "none"

// All is the preset that shows all types of the schema, suspension_marker too, with members that the schema does not have, and sub-agents.
const All = "all"

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
	Analytics: {
		Types:  []chunk.Type{everyType},
		Except: []chunk.Type{chunk.TypeThinking, chunk.TypeToolArgStreamDelta, chunk.TypeStatePatch},
		Hide:   map[chunk.Type][]string{chunk.TypeRunStarted: {"input.metadata"}},
		Mask: map[chunk.Type][]string{
			chunk.TypeToolStart:           {"arguments"},
			chunk.TypeToolEnd:             {"result"},
			chunk.TypeToolInputError:      {"partialInput"},
			chunk.TypeToolApprovalRequest: {"input"},
			chunk.TypeSubagentEnd:         {"result"},
		},
		SubAgents: true,
	},
	None: {},
	All:  {Types: []chunk.Type{everyType, chunk.TypeSuspensionMarker}, SubAgents: true, Extra: true},
}

// withPreset returns v with its preset merged in.
func (v View) withPreset() (View, error) {
	if v.Preset == "" {
		return v, nil
	}
	p, known := presets[v.Preset]
	if !known {
		return v, fmt.Errorf("preset %q: want one of %q", v.Preset, slices.Sorted(maps.Keys(presets)))
	}
	v.Types, v.Except = slices.Concat(p.Types, v.Types), slices.Concat(p.Except, v.Except)
	v.Hide, v.Mask = joined(p.Hide, v.Hide), joined(p.Mask, v.Mask)
	v.SubAgents, v.Extra = v.SubAgents || p.SubAgents, v.Extra || p.Extra
	return v, nil
}

// joined returns the paths of both.
func joined(a, b map[chunk.Type][]string) map[chunk.Type][]string {
	all := make(map[chunk.Type][]string, len(a)+len(b))
	for _, paths := range []map[chunk.Type][]string{a, b} {
		for t := range paths {
			all[t] = slices.Concat(all[t], paths[t])
		}
	}
	return all
}
