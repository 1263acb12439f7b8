// Package openaitest is an endpoint that speaks chat completions and the Responses
// API as the published description of OpenAI's API has them, for tests of what
// talks to such an endpoint. It answers what a test tells it to, in the frames of
// whichever API it is asked in, and does what happens to the real one: it asks
// for patience, breaks down in the middle, cuts the connection, says half a JSON,
// says nothing for a while, or splits its bytes anywhere.
//
//	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
//		return openaitest.Say(openaitest.Text("Hello"), openaitest.Text(" there"))
//	})
//	agent, err := openai.New(openai.Config{BaseURL: end.URL, Key: end.Key, Model: "m"})
//
// It is strict with what it is asked: a request that the real API refuses, such as
// a call without its outcome, is refused in the same words' shape, and the test
// fails.
package openaitest
