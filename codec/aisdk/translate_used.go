package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// used is what the metadata of a message say about its model and its tokens. The AI SDK has no other place for them in a message; the names of the members are those of
// its documentation and of its results: model or modelId, provider, usage, totalUsage.
type used struct {
	model   chunk.Model
	step    *chunk.Usage // of the step that ends next
	total   *chunk.Usage // of the whole message
	counted bool         // a step had its own
}

// read reads the metadata of a part. In those of a finish, usage is that of the message.
func (u *used) read(metadata chunk.Value, kind string) {
	o := dialect.Read(metadata)
	if m := chunk.LabelOf(o.Or("model", o.Or("modelId", ""))); m != nil {
		u.model.Name = *m
	}
	if p := chunk.LabelOf(o.Or("provider", "")); p != nil {
		u.model.Provider = *p
	}
	if total := dialect.UsageOf(o.Peek("totalUsage")); total != nil {
		u.total = total
	}
	switch usage := dialect.UsageOf(o.Peek("usage")); {
	case usage == nil || kind == "start":
	case kind != "finish":
		u.step = usage
	case dialect.UsageOf(o.Peek("totalUsage")) == nil:
		u.total = usage
	}
}

// finish makes the tokens of the message those of its last step, unless its steps had theirs. It reports whether there are any: also a message without steps has them.
func (u *used) finish() bool {
	if u.total == nil || u.counted || u.step != nil {
		return false
	}
	u.step, u.total = u.total, nil
	return true
}

// stepEnd returns the end of a step.
func (u *used) stepEnd(reason *string) chunk.StepEnd {
	end := chunk.StepEnd{FinishReason: reason, Usage: u.step}
	u.step, u.counted = nil, u.counted || u.step != nil
	u.model.AddTo(&end)
	return end
}
