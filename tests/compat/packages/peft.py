"""peft: adapters around a small language model, with a training step of them alone."""

import peft
import torch
import transformers

from harness import double, integers, train

TOLERANCE = 2e-5


def adapted(config):
    base = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, vocab_size=60
        )
    )
    model = double(peft.get_peft_model(base, config))
    tokens = integers(2, 7, below=60)
    return train(model, input_ids=tokens, labels=tokens, loss=lambda result: result.loss)


def case_lora():
    return adapted(peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def case_dora():
    return adapted(peft.LoraConfig(r=4, use_dora=True, target_modules=["q_proj"], task_type="CAUSAL_LM"))


def case_ia3():
    return adapted(peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"))


def case_loha():
    return adapted(peft.LoHaConfig(r=3, target_modules=["q_proj"]))


def case_lokr():
    return adapted(peft.LoKrConfig(r=3, target_modules=["q_proj"]))


def case_merged():
    layer = torch.nn.Sequential(torch.nn.Linear(6, 6))
    model = double(peft.get_peft_model(layer, peft.LoraConfig(r=2, target_modules=["0"])))
    before = model(torch.ones(1, 6))
    return [before, model.merge_and_unload()(torch.ones(1, 6))]
