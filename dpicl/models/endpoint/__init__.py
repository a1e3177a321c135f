"""Models behind an OpenAI-compatible server: vLLM, TGI, llama.cpp, Ollama, a cloud.

Importing this loads no HTTP library; `scorer` needs the extra `endpoint`.
"""
