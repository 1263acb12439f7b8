// Package viewtest generates random views, for tests of what is shown under a view. Only tests may import it, because it imports pgregory.net/rapid.
package viewtest

import (
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
)

// hideable has groups of members that a view hides together, because they have the same content.
var hideable = []map[chunk.Type][]string{
	{"tool_start": {"arguments"}, "tool_arg_stream_delta": {"delta"}, "tool_approval_request": {"input"}, "tool_input_error": {"partialInput"}},
	{"tool_end": {"result"}, "subagent_end": {"result"}},
	{"tool_end": {"error"}, "tool_input_error": {"error"}, "tool_output_error": {"error"}},
	{"error": {"error", "errorDetail"}, "stream_failed": {"error", "errorDetail"}},
	{"tool_approval_response": {"reason"}},
	{"text_delta": {"delta"}}, {"thinking": {"content"}}, {"custom": {"data"}}, {"file": {"url"}}, {"step_end": {"usage"}},
	{"source_url": {"title"}}, {"run_started": {"input"}}, {"*": {"agentType"}},
}

// maskable has groups of members that a view masks together. The first has inputs of calls; a view that masks them hides their pieces.
var maskable = []map[chunk.Type][]string{
	{"tool_start": {"arguments"}, "tool_approval_request": {"input"}, "tool_input_error": {"partialInput"}},
	{"tool_end": {"result"}, "subagent_end": {"result"}},
	{"output": {"output"}, "stream_end": {"finalOutput"}},
	{"custom": {"data"}}, {"run_started": {"input.metadata"}}, {"tool_start": {"arguments.q"}}, {"suspension_marker": {"payload"}},
}

// Views generates views: a preset, or all types but some, with some members hidden and some masked.
func Views() *rapid.Generator[*view.Compiled] {
	return rapid.Custom(func(t *rapid.T) *view.Compiled {
		v := view.View{SubAgents: rapid.Bool().Draw(t, "subAgents")}
		if rapid.IntRange(0, 3).Draw(t, "preset") == 0 {
			v.Preset = rapid.SampledFrom([]string{view.Public, view.Analytics, view.None, view.All}).Draw(t, "name")
		} else {
			v.Types = []chunk.Type{"*"}
			v.Except = rapid.SliceOfNDistinct(rapid.SampledFrom(chunk.Types()), 0, 4, rapid.ID[chunk.Type]).Draw(t, "except")
			v.Hide = map[chunk.Type][]string{}
			for _, group := range rapid.SliceOfN(rapid.SampledFrom(hideable), 0, 3).Draw(t, "hide") {
				for typ, paths := range group {
					v.Hide[typ] = append(v.Hide[typ], paths...)
				}
			}
			v.Mask = map[chunk.Type][]string{}
			for _, group := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(maskable)-1), 0, 3, rapid.ID[int]).Draw(t, "mask") {
				for typ, paths := range maskable[group] {
					v.Mask[typ] = append(v.Mask[typ], paths...)
				}
				if group == 0 {
					v.Except = append(v.Except, chunk.TypeToolArgStreamDelta)
				}
			}
		}
		c, err := v.Compile()
		if err != nil {
			return nil // it hides a value in one place and shows it in another
		}
		return c
	}).Filter(func(c *view.Compiled) bool { return c != nil })
}
