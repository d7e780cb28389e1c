"""braindecode: networks for recordings of many channels, with a training step."""

from braindecode import models

from harness import double, tensor, train

QUICK = ["shallow"]


def network(kind, **options):
    model = getattr(models, kind)(n_chans=4, n_outputs=3, n_times=400, **options)
    return train(double(model), tensor(2, 4, 400))


def case_shallow():
    return network("ShallowFBCSPNet", drop_prob=0.0)


def case_deep():
    return network("Deep4Net", drop_prob=0.0, final_conv_length="auto")


def case_eegnet():
    return network("EEGNet", drop_prob=0.0)
