"""Fine-tuning small transformers by their Trainer: all weights with evaluation and resumption, and adapters of peft."""

import tempfile

import numpy
import peft
import torch
import transformers

from harness import double, integers

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 40}
TOLERANCE = 2e-5


class Sentences(torch.utils.data.Dataset):
    """Sentences of tokens, whose class says whether the first one is in the first half of the vocabulary."""

    def __init__(self, count, seed):
        self.tokens = integers(count, 11, below=40, seed=seed)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": (tokens[0] < 20).long()}


class Texts(Sentences):
    """Sequences that count upwards, each from another token on."""

    def __getitem__(self, index):
        tokens = (self.tokens[index, 0] + torch.arange(11)) % 40
        return {"input_ids": tokens, "labels": tokens}


def arguments(folder, rate, **more):
    return transformers.TrainingArguments(
        folder, per_device_train_batch_size=8, per_device_eval_batch_size=16, learning_rate=rate, weight_decay=0.01, report_to=[],
        lr_scheduler_type="cosine", warmup_steps=3, logging_steps=1, disable_tqdm=True, use_cpu=True, train_sampling_strategy="sequential",
        **more,
    )


def metrics(prediction):
    return {"accuracy": float((numpy.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def history(trainer, *names):
    return [[entry[name] for entry in trainer.state.log_history if name in entry] for name in names]


def classifier():
    config = transformers.BertConfig(num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **SMALL)
    return double(transformers.BertForSequenceClassification(config))


def case_all_weights():
    with tempfile.TemporaryDirectory() as folder:
        options = arguments(
            folder, 2e-3, num_train_epochs=6, eval_strategy="epoch", save_strategy="epoch", gradient_accumulation_steps=2, max_grad_norm=0.5
        )
        data = {"train_dataset": Sentences(128, 0), "eval_dataset": Sentences(32, 1)}
        trainer = transformers.Trainer(model=classifier(), args=options, compute_metrics=metrics, **data)
        trainer.train()
        resumed = transformers.Trainer(model=classifier(), args=options, compute_metrics=metrics, **data)
        resumed.train(resume_from_checkpoint=f"{folder}/checkpoint-24")
        predictions = trainer.predict(data["eval_dataset"]).predictions
        same = all(torch.equal(a, b) for a, b in zip(trainer.model.parameters(), resumed.model.parameters()))
    names = ("loss", "learning_rate", "grad_norm", "eval_loss", "eval_accuracy")
    return [history(trainer, *names), history(resumed, *names), predictions, same]


def language_model():
    config = transformers.LlamaConfig(num_key_value_heads=2, pad_token_id=0, bos_token_id=None, eos_token_id=None, **SMALL)
    return double(transformers.LlamaForCausalLM(config))


def case_adapters():
    config = peft.LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    model = double(peft.get_peft_model(language_model(), config))
    data = Texts(64, 2)
    with tempfile.TemporaryDirectory() as folder:
        options = arguments(folder, 5e-3, num_train_epochs=4, save_strategy="no")
        trainer = transformers.Trainer(model=model, args=options, train_dataset=data)
        trainer.train()
        model.save_pretrained(f"{folder}/adapter")
        base = double(peft.get_peft_model(language_model(), config)).unload()
        loaded = peft.PeftModel.from_pretrained(base, f"{folder}/adapter").eval()
    model.eval()
    tokens = data[3]["input_ids"][None]
    merged = model.merge_and_unload()
    generated = merged.generate(tokens[:, :4], max_new_tokens=6, do_sample=False)
    return [history(trainer, "loss", "grad_norm"), loaded(tokens).logits, merged(tokens).logits, generated]
