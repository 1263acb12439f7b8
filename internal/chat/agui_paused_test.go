package chat

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/workers"
)

// A request whose response was lost is sent again after another client has answered the question: the response does not end with the question, because its client
// would not come back for the rest of the turn.
func TestAGUIAgainAfterAnAnswer(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(asking("c1"))
	const question = "RUN_STARTED STEP_STARTED TOOL_CALL_START(c1) TOOL_CALL_ARGS({}c1) TOOL_CALL_END(c1) STEP_FINISHED"
	asked, _ := e.run(nil, `"messages":[`+hi+`]`)
	want(t, asked, question+" RUN_FINISHED(success)")
	again, _ := e.run(nil, `"messages":[`+hi+`]`) // it waits for the user still
	want(t, again, asked)
	resumed, _ := e.run(nil, `"messages":[`+hi+`,{"id":"m","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"browser","arguments":"{}"}}]},`+
		`{"id":"t1","role":"tool","toolCallId":"c1","content":"{\"ok\":true}"}]`)
	want(t, resumed, "RUN_STARTED "+aguiRest)
	whole, _ := e.run(nil, `"messages":[`+hi+`]`)
	if !strings.HasPrefix(whole, question+" ") || !strings.HasSuffix(whole, " TOOL_CALL_RESULT(c1) "+aguiRest) || strings.Count(whole, "RUN_FINISHED") != 1 {
		t.Errorf("the whole turn is %s", whole)
	}
	w.handledAre("execute", "resume")
}

// A sub-agent requests an approval, and its parent waits for it alone: the response ends when the user must answer, and not before.
func TestAGUISubAgentAsks(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(clerk)})
	asked, _ := e.run(nil, `"messages":[`+hi+`]`)
	if !strings.Contains(asked, "a1)") || !strings.HasSuffix(asked, "RUN_FINISHED(interrupt)") || strings.Count(asked, "RUN_FINISHED") != 1 {
		t.Errorf("the question is %s", asked)
	}
	again, _ := e.run(nil, `"messages":[`+hi+`]`)
	if !strings.HasSuffix(again, "RUN_FINISHED(interrupt)") || strings.Count(again, "RUN_FINISHED") != 1 {
		t.Errorf("the question again is %s", again)
	}
}

// A client sends the result of a tool, and its response is cut before the event of that result: the rest of the response does not have it, because the client has the result as
// a message of its own.
func TestAGUIContinueAfterAResult(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(asking("c1"))
	asked, cursor := e.run(nil, `"messages":[`+hi+`]`)
	if !strings.HasSuffix(asked, "RUN_FINISHED(success)") {
		t.Fatalf("the question is %s", asked)
	}
	answered := `"messages":[` + hi + `,{"id":"m","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"browser","arguments":"{}"}}]},` +
		`{"id":"t1","role":"tool","toolCallId":"c1","content":"{\"ok\":true}"}]`
	whole, _ := e.run(nil, answered)
	want(t, whole, "RUN_STARTED "+aguiRest)
	rest, _ := e.run(nil, `"lastEventId":"`+cursor+`",`+answered)
	want(t, rest, whole)
	w.handledAre("execute", "resume")
}
