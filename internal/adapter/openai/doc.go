// Package openai calls models over the Chat Completions protocol: OpenAI's own
// and every server that speaks it (Ollama, vLLM, LM Studio, llama.cpp,
// OpenRouter, LiteLLM and the like).
//
// It renders a request to bytes, has the vendor's client send them once, and
// decodes the stream of the answer. The bytes are made here and not by the
// client's types, so that they stay the same over an upgrade of the client: the
// messages of a request are a prefix of those of the next one, which is what
// every cache of prompts goes by.
//
// It retries nothing (the engine records every attempt), runs no tools, reads
// no environment and opens no address but the one it was given. Servers differ
// in what they leave out and what they add; where they do, this package takes
// what can be understood and sends what the strictest of them accepts.
//
// It may import the standard library, the host's ports, core and the vendor's
// client.
package openai
