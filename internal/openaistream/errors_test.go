package openaistream

import "testing"

// An event has an error if its member "error" has content, in any form.
func TestProblemIn(t *testing.T) {
	for data, want := range map[string]Error{
		`{"error":{"message":"x","type":"y","code":"z"}}`:           {Message: "x", Type: "y", Code: "z"},
		`{"error":{"message":"x","code":503}}`:                      {Message: "x", Code: "503"},
		`{"error":{"message":"x","code":429,"metadata":{}},"id":1}`: {Message: "x", Code: "429"},
		`{"error":{"message":"x","code":null}}`:                     {Message: "x"},
		`{"error":"the context window is full"}`:                    {Message: "the context window is full"},
		`{"error":{"message":7}}`:                                   {Message: `{"message":7}`},
		`{"error":true}`:                                            {Message: "true"},
		`{"error":[1]}`:                                             {Message: "[1]"},
		`{"error":null}`:                                            {},
		`{"error":false}`:                                           {},
		`{"error":""}`:                                              {},
		`{"error":{}}`:                                              {},
		`{"choices":[{"error":{"message":"x"}}]}`:                   {},
		`{}`:              {},
		`[{"error":"x"}]`: {},
		`no JSON`:         {},
	} {
		if got, ok := errorIn([]byte(data)); got != want || ok != (want != Error{}) {
			t.Errorf("%s: got %+v, %v; want %+v", data, got, ok, want)
		}
	}
}

// Names take precedence over status codes.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		status int
		p      Error
		code   string
	}{
		{0, Error{Message: "x", Code: "503"}, CodeOverloaded},
		{0, Error{Message: "x", Code: "429"}, CodeRateLimited},
		{0, Error{Message: "the context window is full"}, CodeContextExceeded},
		{0, Error{Message: "x"}, CodeUnknown},
		{418, Error{}, CodeInvalidRequest},
		{599, Error{}, CodeUnavailable},
		{408, Error{}, CodeTimeout},
		{413, Error{}, CodeContextExceeded},
	} {
		if code, _ := c.p.Classify(c.status); code != c.code {
			t.Errorf("%d %+v: %s, want %s", c.status, c.p, code, c.code)
		}
	}
}
