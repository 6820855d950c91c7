"""Sends streamed chats with the openai package, with exponential gaps, and writes when their tokens came.

    VENV/bin/python tests/clients/openai_load.py URL REQUESTS RATE_PER_S PROMPT_TOKENS OUTPUT_TOKENS SEED OUT.json

Before that it asks once for each thing that the package reads from a server: models, a completion and a chat in one piece, a streamed
completion with its usage.
"""

import asyncio
import json
import random
import sys
import time

import openai
from tokenizer import text


async def try_all(client, model):
    assert (await client.models.retrieve(model)).id == model
    whole = await client.completions.create(model=model, prompt=text(1, 9), max_tokens=8, temperature=0, seed=1)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (9, 8), whole
    messages = [{"role": "user", "content": text(2, 9)}]
    chat = await client.chat.completions.create(model=model, messages=messages, max_completion_tokens=8)
    assert chat.choices[0].message.content and chat.choices[0].finish_reason == "length", chat
    streamed, usage = "", None
    async for chunk in await client.completions.create(
        model=model, prompt=text(3, 9), max_tokens=8, stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True}
    ):
        usage = chunk.usage or usage
        streamed += chunk.choices[0].text if chunk.choices else ""
    assert len(streamed.split()) == 8 and usage.completion_tokens == 8, (streamed, usage)


async def chat_once(client, model, prompt, output_tokens):
    began, came, usage = time.perf_counter(), [], None
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": prompt}], max_completion_tokens=output_tokens, temperature=0, stream=True,
        stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        if chunk.choices and chunk.choices[0].delta.content:
            came.append(time.perf_counter())
    return {
        "start_s": began, "ttft_s": came[0] - began, "e2e_s": came[-1] - began,
        "prompt_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens,
    }


async def main(url, requests, rate_per_s, prompt_tokens, output_tokens, seed, out):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        model = [each.id async for each in client.models.list()][0]
        await try_all(client, model)
        draw, sent = random.Random(seed), []
        for index in range(requests):
            sent.append(asyncio.create_task(chat_once(client, model, text(1000 + index, prompt_tokens), output_tokens)))
            await asyncio.sleep(draw.expovariate(rate_per_s))
        with open(out, "w") as file:
            json.dump(await asyncio.gather(*sent), file)


if __name__ == "__main__":
    url, requests, rate_per_s, prompt_tokens, output_tokens, seed, out = sys.argv[1:]
    asyncio.run(main(url, int(requests), float(rate_per_s), int(prompt_tokens), int(output_tokens), int(seed), out))
