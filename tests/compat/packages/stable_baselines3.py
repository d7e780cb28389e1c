"""stable-baselines3: the policies of its algorithms, a step of PPO on data that is given, and saving."""

import io

import gymnasium
import numpy
import stable_baselines3
import torch

from harness import fill, tensor

DOUBLE = False
TOLERANCE = 1e-4


def case_policy():
    model = stable_baselines3.PPO("MlpPolicy", gymnasium.make("CartPole-v1"), device="cpu", seed=0)
    fill(model.policy)
    values, density, entropy = model.policy.evaluate_actions(tensor(6, 4), torch.tensor([0, 1, 1, 0, 1, 0]))
    (values.sum() + density.sum() - entropy.sum()).backward()
    return [values, density, entropy, [parameter.grad for parameter in model.policy.parameters()]]


def case_update():
    model = stable_baselines3.A2C("MlpPolicy", gymnasium.make("CartPole-v1"), device="cpu", seed=0, n_steps=8)
    fill(model.policy)
    buffer, generator = model.rollout_buffer, numpy.random.RandomState(0)
    buffer.reset()
    for _ in range(8):
        values = [generator.standard_normal(sizes).astype(numpy.float32) for sizes in ((1, 4), (1,))]
        action = generator.randint(0, 2, (1, 1))
        buffer.add(values[0], action, values[1], numpy.zeros(1), torch.tensor(values[1]), torch.tensor([-0.7]))
    buffer.compute_returns_and_advantage(torch.zeros(1, 1), numpy.zeros(1))
    model._logger = stable_baselines3.common.logger.configure(None, [])
    model._current_progress_remaining = 1.0
    model.train()
    return list(model.policy.parameters())


def case_saved():
    model = stable_baselines3.DQN("MlpPolicy", gymnasium.make("CartPole-v1"), device="cpu", seed=0, buffer_size=100)
    fill(model.policy)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = stable_baselines3.DQN.load(file, device="cpu")
    return [loaded.q_net(tensor(5, 4)), loaded.predict(numpy.ones(4, numpy.float32), deterministic=True)[0]]


def case_learns():
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=1, n_steps=512, batch_size=64, n_epochs=10, learning_rate=1e-3)
    model.learn(16384)
    mean, _ = stable_baselines3.common.evaluation.evaluate_policy(model, gymnasium.make("CartPole-v1"), n_eval_episodes=10)
    # Moves are drawn by other generators, so that only the outcome can be compared.
    return bool(mean > 400)
