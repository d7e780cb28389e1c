"""stable-baselines3: PPO learns to balance the pole, and is saved and loaded."""

import io

import gymnasium
import numpy
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

DOUBLE = False


def case_ppo():
    environments = make_vec_env("CartPole-v1", n_envs=4, seed=3)
    model = stable_baselines3.PPO(
        "MlpPolicy", environments, device="cpu", seed=3, n_steps=128, batch_size=128, n_epochs=10, learning_rate=1e-3, gamma=0.98,
        gae_lambda=0.9, ent_coef=0.0,
    )
    model.learn(30_000)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = stable_baselines3.PPO.load(file, device="cpu")
    mean, _ = evaluate_policy(loaded, gymnasium.make("CartPole-v1"), n_eval_episodes=20)
    observation = numpy.array([0.01, -0.02, 0.03, 0.04], numpy.float32)
    same = int(model.predict(observation, deterministic=True)[0]) == int(loaded.predict(observation, deterministic=True)[0])
    # Moves are drawn by other generators than PyTorch's, so that only the outcome can be compared.
    return {"mean reward above 400": bool(mean > 400), "loaded policy moves as the saved one": same}
