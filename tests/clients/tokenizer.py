"""Makes a small tokenizer, and texts that it cuts into as many tokens as they have words.

    python3 tests/clients/tokenizer.py FOLDER [--check]

Benchmark clients make prompts of so many tokens by a tokenizer, and a server counts them by its own: here both have this one. It is a
byte-level BPE of about 5,000 tokens: ASCII letters and signs, and invented words of two to four letters behind a space, each of
which is one token whatever stands beside it. What is not ASCII is dropped. Nothing is drawn by chance but texts, from a seed: the
same files come out each time. No package is needed.
"""

import hashlib
import json
import pathlib
import random
import sys

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CONSONANTS = "bdfgklmnprstv"
VOWELS = "aeiou"
# How byte-level tokenizers write the space and the line break.
SPACE, LINE_BREAK = "Ġ", "Ċ"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def longer(words, letters):
    return [(word, letter) for word in words for letter in letters]


def vocabulary():
    """All tokens in the order of their ids, and the merges that make words of letters."""
    tokens = SPECIAL + [chr(code) for code in range(ord("!"), ord("~") + 1)] + [SPACE, LINE_BREAK]
    merges, words = [], [SPACE]
    for letters in (CONSONANTS, VOWELS, CONSONANTS, VOWELS):
        pairs = longer(words, letters)
        words = [word + letter for word, letter in pairs]
        merges += pairs
        tokens += words
    return tokens, merges


def text(seed, words):
    """A text of so many words, which are so many tokens."""
    draw = random.Random(seed)
    return "".join(" " + "".join(map(draw.choice, (CONSONANTS, VOWELS, CONSONANTS, VOWELS))) for _ in range(words))


def tokenizer_json():
    tokens, merges = vocabulary()
    added = [
        {"id": index, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for index, token in enumerate(SPECIAL)
    ]
    bytes_of_text = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [f"{left} {right}" for left, right in merges],
    }
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": bytes_of_text, "post_processor": None, "decoder": bytes_of_text, "model": model,
    }


def files():
    """What a folder of a model holds that clients look at, without its weights."""
    end, begin = SPECIAL[2], SPECIAL[0]
    return {
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32768, "bos_token": begin, "eos_token": end,
            "pad_token": begin, "add_bos_token": False, "add_eos_token": False, "clean_up_tokenization_spaces": False,
            "chat_template": CHAT,
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(vocabulary()[0]), "hidden_size": 256,
            "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0,
        },
    }


def conversations(count=200, words=256):
    """In the form of ShareGPT's file, of which `sglang.bench_serving` cuts or repeats prompts to the length that is asked for."""
    def turn(speaker, seed):
        return {"from": speaker, "value": text(seed, words)}

    return [{"id": str(index), "conversations": [turn("human", 2 * index), turn("gpt", 2 * index + 1)]} for index in range(count)]


def make(folder):
    """Writes the tokenizer into the folder, and returns a digest of its files."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for name, content in files().items():
        written = json.dumps(content, indent=1, ensure_ascii=False).encode()
        (folder / name).write_bytes(written)
        digest.update(name.encode() + written)
    return digest.hexdigest()


def check(folder):
    """Cuts texts with the `tokenizers` package, which must be there."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for words in (1, 17, 512):
        cut = made.encode(text(words, words))
        assert len(cut.ids) == words, f"{words} words are {len(cut.ids)} tokens"
        assert made.decode(cut.ids) == text(words, words)
    # As `vllm bench serve` draws prompts: tokens with ids in a row.
    count = made.get_vocab_size()
    for first in range(len(SPECIAL), count - 512, 101):
        again = made.encode(made.decode(list(range(first, first + 512)))).ids
        assert len(again) == 512, f"512 tokens from {first} on are {len(again)} once they are text"
    print(f"{count} tokens; texts keep their lengths")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    print(f"{target}: sha256 {make(target)}")
    if "--check" in sys.argv:
        check(target)
