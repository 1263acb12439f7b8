// Package openaitest provides a fake endpoint of the chat completions and the Responses API, after the
// published description of OpenAI's API, for tests of clients. A test defines its replies, which are sent in
// the format of the requested API. It can simulate the failures of the real endpoint: a requested delay, an
// error in the middle of a stream, a closed connection, truncated JSON, silence, and arbitrary splits of the
// byte stream.
//
//	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
//		return openaitest.StreamReply(openaitest.Text("Hello"), openaitest.Text(" there"))
//	})
//	agent, err := openai.New(openai.Config{BaseURL: end.URL, Key: end.Key, Model: "m"})
//
// Requests are validated strictly: one that the real API rejects, such as a call without an outcome, gets an
// error in the same format, and fails the test.
package openaitest
