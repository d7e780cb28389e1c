"""transformers: a training step of small models from their configurations, generation, and its Trainer."""

import tempfile

import torch
import transformers

from harness import double, integers, tensor, train

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 60}
TOLERANCE = 2e-5
QUICK = ["gpt2", "bert"]


def language_model(config, **named):
    model = double(transformers.AutoModelForCausalLM.from_config(config))
    tokens = integers(2, 9, below=60)
    return train(model, input_ids=tokens, labels=tokens, loss=lambda result: result.loss, **named)


def case_gpt2():
    return language_model(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, bos_token_id=0, eos_token_id=1))


def case_llama():
    return language_model(transformers.LlamaConfig(num_key_value_heads=2, **SMALL))


def case_mistral():
    return language_model(transformers.MistralConfig(num_key_value_heads=2, sliding_window=4, **SMALL))


def case_qwen2():
    return language_model(transformers.Qwen2Config(num_key_value_heads=2, **SMALL))


def case_qwen3():
    return language_model(transformers.Qwen3Config(num_key_value_heads=2, head_dim=8, **SMALL))


def case_gemma2():
    return language_model(transformers.Gemma2Config(num_key_value_heads=2, head_dim=8, pad_token_id=0, **SMALL))


def case_phi():
    return language_model(transformers.PhiConfig(**SMALL))


def case_mixtral():
    config = transformers.MixtralConfig(num_key_value_heads=2, num_local_experts=3, **SMALL)
    # PyTorch's grouped product takes single precision only.
    config._experts_implementation = "eager"
    return language_model(config)


def case_opt():
    config = transformers.OPTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, vocab_size=60, word_embed_proj_dim=32, dropout=0.0
    )
    return language_model(config)


def case_neox():
    return language_model(transformers.GPTNeoXConfig(**SMALL))


def case_bloom():
    return language_model(transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=60))


def case_mamba():
    return language_model(transformers.MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=60))


def case_bert():
    model = double(transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=3, **SMALL)))
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    tokens = integers(2, 9, below=60)
    return train(model, input_ids=tokens, attention_mask=mask, labels=torch.tensor([0, 2]), loss=lambda result: result.loss)


def case_distilbert():
    config = transformers.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=60)
    return train(double(transformers.DistilBertForMaskedLM(config)), input_ids=integers(2, 9, below=60))


def case_t5():
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=60, decoder_start_token_id=0, dropout_rate=0.0
    )
    model = double(transformers.T5ForConditionalGeneration(config))
    tokens = integers(2, 9, below=60)
    return train(model, input_ids=tokens, labels=integers(2, 5, below=60, seed=1), loss=lambda result: result.loss)


def case_vit():
    config = transformers.ViTConfig(image_size=32, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"})
    return train(double(transformers.ViTForImageClassification(config)), tensor(2, 3, 32, 32))


def case_clip():
    text = {"bos_token_id": 0, "eos_token_id": 59, "max_position_embeddings": 16, **SMALL}
    vision = {"image_size": 32, "patch_size": 8, **{k: v for k, v in SMALL.items() if k != "vocab_size"}}
    model = double(transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)))
    return train(
        model, input_ids=integers(2, 9, below=60), pixel_values=tensor(2, 3, 32, 32), return_loss=True, loss=lambda result: result.loss
    )


def case_generation():
    model = double(transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **SMALL))).eval()
    prompt = integers(1, 4, below=60)
    options = {"max_new_tokens": 8, "pad_token_id": 0, "eos_token_id": None}
    return [
        model.generate(prompt, do_sample=False, **options),
        model.generate(prompt, do_sample=False, num_beams=3, **options),
    ]


def case_saved():
    model = double(transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60))).eval()
    tokens = integers(1, 6, below=60)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    return [model(tokens).logits, loaded(tokens).logits]


def case_trainer():
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            tokens = integers(6, below=60, seed=index)
            return {"input_ids": tokens, "labels": tokens}

    model = double(transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=60)))
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=2, learning_rate=1e-3, report_to=[], save_strategy="no",
            logging_steps=1, disable_tqdm=True, use_cpu=True, train_sampling_strategy="sequential",
        )
        trainer = transformers.Trainer(model=model, args=options, train_dataset=Data())
        trainer.train()
    return [[entry["loss"] for entry in trainer.state.log_history if "loss" in entry], list(model.parameters())[:3]]
