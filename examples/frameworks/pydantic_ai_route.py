"""A route with an agent of Pydantic AI, which workers of Tailrace ask: uvicorn pydantic_ai_route:app --port 8000."""

from fastapi import FastAPI, Request, Response
from pydantic_ai import Agent
from pydantic_ai.ui.vercel_ai import VercelAIAdapter

#region route
app = FastAPI()
agent = Agent("openai:gpt-5", instructions="You help customers.")


@app.post("/api/chat")
async def chat(request: Request) -> Response:
    return await VercelAIAdapter.dispatch_request(request, agent=agent, sdk_version=6)
#endregion
