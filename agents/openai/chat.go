package openai

import (
	"context"
	"net/http"

	oai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// chatWire implements chat completions.
type chatWire struct {
	service       oai.ChatCompletionService
	model         string
	sendReasoning bool
}

func newChatWire(model string, sendReasoning bool, options []option.RequestOption) chatWire {
	return chatWire{service: oai.NewChatCompletionService(options...), model: model, sendReasoning: sendReasoning}
}

func (w chatWire) ask(ctx context.Context, q request, p *stepWriter) (result, error) {
	var res *http.Response
	stream := w.service.NewStreaming(ctx, w.params(q), option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // the response was read
	if err := stream.Err(); err != nil {
		return result{}, err
	}
	return p.read(ctx, res)
}

func (w chatWire) params(q request) oai.ChatCompletionNewParams {
	p := oai.ChatCompletionNewParams{
		Model:         w.model,
		StreamOptions: oai.ChatCompletionStreamOptionsParam{IncludeUsage: oai.Bool(true)},
	}
	if q.system != "" {
		p.Messages = append(p.Messages, oai.SystemMessage(q.system))
	}
	for _, e := range q.history {
		p.Messages = append(p.Messages, w.message(e))
	}
	for _, t := range q.tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: t.params}
		if t.Description != "" {
			f.Description = oai.String(t.Description)
		}
		p.Tools = append(p.Tools, oai.ChatCompletionFunctionTool(f))
	}
	if q.requireTool {
		p.ToolChoice.OfAuto = oai.String("required")
	}
	return p
}

func (w chatWire) message(e entry) oai.ChatCompletionMessageParamUnion {
	switch e.role {
	case outcomeRole:
		return oai.ToolMessage(e.text, e.call)
	case modelRole:
		m := &oai.ChatCompletionAssistantMessageParam{}
		if w.sendReasoning {
			m.SetExtraFields(map[string]any{"reasoning_content": e.reasoning})
		}
		if e.text != "" {
			m.Content.OfString = oai.String(e.text)
		}
		for _, c := range e.calls {
			m.ToolCalls = append(m.ToolCalls, oai.ChatCompletionMessageToolCallUnionParam{OfFunction: &oai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.id, Function: oai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.name, Arguments: c.args},
			}})
		}
		return oai.ChatCompletionMessageParamUnion{OfAssistant: m}
	}
	if len(e.files) == 0 {
		return oai.UserMessage(e.text) // text-only servers reject parts
	}
	var parts []oai.ChatCompletionContentPartUnionParam
	if e.text != "" {
		parts = append(parts, oai.TextContentPart(e.text))
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			parts = append(parts, oai.ImageContentPart(oai.ChatCompletionContentPartImageImageURLParam{URL: f.URL}))
		case isData(f):
			parts = append(parts, oai.FileContentPart(oai.ChatCompletionContentPartFileFileParam{FileData: oai.String(f.URL), Filename: oai.String(filename(f))}))
		default:
			parts = append(parts, oai.TextContentPart(fileReference(f)))
		}
	}
	return oai.UserMessage(parts)
}
