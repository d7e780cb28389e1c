"""open-clip: a small model of images and text, with its loss."""

import open_clip
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

from harness import double, integers, tensor, train


class Trained(CLIP):
    def forward(self, image, text):
        found = super().forward(image, text)
        features = found if isinstance(found, tuple) else (found["image_features"], found["text_features"], found["logit_scale"])
        return open_clip.ClipLoss()(*features[:3])


def case_clip():
    vision = CLIPVisionCfg(layers=2, width=32, head_width=8, image_size=32, patch_size=8)
    text = CLIPTextCfg(context_length=8, vocab_size=50, width=32, heads=4, layers=2)
    return train(double(Trained(16, vision, text)), tensor(3, 3, 32, 32), integers(3, 8, below=50))
