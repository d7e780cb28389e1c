/* A plug-in that uses functions which were added in version 1.1, where the library has them. */
#include "flambeau.h"

static const FbApi *fb;

/* The same elements, out by DLPack and in again: a tensor that shares them. */
static FbError *exchanged(void *context, FbCall *call) {
    size_t count;
    struct DLManagedTensorVersioned *managed;
    FbTensor *shared;
    const int64_t *sizes, *strides;
    FbValue result = {FB_TENSOR, 0, {0}, {0}};
    FbError *error = fb->dlpack_export(fb->call_arguments(call, &count)[0].as.tensor, &managed);
    (void)context;
    if (!error) error = fb->dlpack_import(managed, &shared);
    if (error) return error;
    result.as.tensor = shared;
    if (fb->tensor_geometry(shared, &sizes, &strides) != fb->tensor_dim(shared) || sizes != fb->tensor_sizes(shared) ||
        strides != fb->tensor_strides(shared) || fb->tensor_geometry(NULL, &sizes, NULL) != 0 || sizes) {
        fb->tensor_release(shared);
        return fb->error_new(FB_ERROR_INTERNAL, "exchange: another geometry");
    }
    error = fb->call_return(call, &result, 1);
    fb->tensor_release(shared);
    return error;
}

FB_EXPORT FbError *flambeau_plugin_init(const FbApi *api) {
    FbOperator *op;
    FbError *error;
    fb = api;
    if (!FB_HAS(api, tensor_geometry)) return fb->error_new(FB_ERROR_NOT_IMPLEMENTED, "exchange: the library is older than 1.1");
    error = fb->define("c_exchange::alias(Tensor self) -> Tensor", &op);
    if (!error) error = fb->implement(op, "CPU", exchanged, NULL, NULL, 0);
    return error;
}
