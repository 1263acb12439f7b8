package openai

import (
	"context"
	"net/http"

	oai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// responsesWire implements the Responses API. The endpoint stores nothing: every request contains the whole
// history.
type responsesWire struct {
	service responses.ResponseService
	model   string
}

func newResponsesWire(model string, options []option.RequestOption) responsesWire {
	return responsesWire{service: responses.NewResponseService(options...), model: model}
}

func (w responsesWire) ask(ctx context.Context, q request, p *stepWriter) (result, error) {
	var res *http.Response
	stream := w.service.NewStreaming(ctx, w.params(q), option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // the response was read
	if err := stream.Err(); err != nil {
		return result{}, err
	}
	return p.read(ctx, res)
}

func (w responsesWire) params(q request) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: w.model, Store: oai.Bool(false)}
	if q.system != "" {
		p.Instructions = oai.String(q.system)
	}
	items := responses.ResponseInputParam{}
	for _, e := range q.history {
		items = append(items, responsesItems(e)...)
	}
	p.Input.OfInputItemList = items
	for _, t := range q.tools {
		f := &responses.FunctionToolParam{Name: t.Name, Parameters: t.params, Strict: oai.Bool(false)}
		if t.Description != "" {
			f.Description = oai.String(t.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: f})
	}
	if q.requireTool {
		p.ToolChoice.OfToolChoiceMode = oai.Opt(responses.ToolChoiceOptionsRequired)
	}
	return p
}

func responsesItems(e entry) responses.ResponseInputParam {
	switch e.role {
	case outcomeRole:
		item := responses.ResponseInputItemParamOfFunctionCallOutput(e.text)
		item.OfFunctionCallOutput.CallID = oai.String(e.call)
		return responses.ResponseInputParam{item}
	case modelRole:
		var items responses.ResponseInputParam
		if e.text != "" {
			items = append(items, responses.ResponseInputItemParamOfMessage(e.text, responses.EasyInputMessageRoleAssistant))
		}
		for _, c := range e.calls {
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(c.args, c.id, c.name))
		}
		return items
	}
	if len(e.files) == 0 {
		return responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(e.text, responses.EasyInputMessageRoleUser)}
	}
	var parts responses.ResponseInputMessageContentListParam
	if e.text != "" {
		parts = append(parts, responses.ResponseInputContentParamOfInputText(e.text))
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
			image.OfInputImage.ImageURL = oai.String(f.URL)
			parts = append(parts, image)
		case isData(f):
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
				FileData: oai.String(f.URL), Filename: oai.String(filename(f)),
			}})
		default:
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{FileURL: oai.String(f.URL)}})
		}
	}
	return responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)}
}
