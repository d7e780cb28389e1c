/* A plug-in that is compiled with the header of version 1.0: an operator whose kernel gets its factor as context. */
#include "flambeau.h"

static const FbApi *fb;

static FbError *negative(void *context, FbCall *call) {
    size_t count, i;
    const FbValue *arguments = fb->call_arguments(call, &count);
    FbTensor *x = arguments[0].as.tensor, *out, *both[2];
    uint32_t access[2] = {FB_READ, FB_WRITE};
    FbGuard *guard;
    FbValue result = {FB_TENSOR, 0, {0}, {0}};
    FbError *error;
    if (fb->tensor_dtype(x) != FB_FLOAT32 || !fb->tensor_is_contiguous(x))
        return fb->error_new(FB_ERROR_DTYPE, "c_old::negative: expected a dense tensor of float32");
    error = fb->tensor_empty(fb->tensor_sizes(x), fb->tensor_dim(x), FB_FLOAT32, fb->tensor_device(x), &out);
    if (error) return error;
    both[0] = x;
    both[1] = out;
    error = fb->guard_acquire(both, access, 2, &guard);
    if (!error) {
        const float *from = (const float *)fb->guard_data(guard, 0);
        float *to = (float *)fb->guard_data(guard, 1);
        for (i = 0; i < (size_t)fb->tensor_numel(x); i++) to[i] = *(float *)context * from[i];
        fb->guard_release(guard);
        result.as.tensor = out;
        error = fb->call_return(call, &result, 1);
    }
    fb->tensor_release(out);
    return error;
}

FB_EXPORT FbError *flambeau_plugin_init(const FbApi *api) {
    static float factor = -1.0f;
    FbOperator *op;
    FbError *error;
    fb = api;
    /* The library's table is at least as large as this header's. */
    if (api->size < sizeof(FbApi)) return fb->error_new(FB_ERROR_INTERNAL, "c_old: the table is too small");
    error = fb->define("c_old::negative(Tensor self) -> Tensor", &op);
    if (!error) error = fb->implement(op, "CPU", negative, &factor, NULL, 0);
    return error;
}
