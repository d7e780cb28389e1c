/* Prints the size of a value and the offset of each member of the table, as the header has them. */
#include <stdio.h>

#include "flambeau.h"

#define MEMBER(name) printf("%s %lu\n", #name, (unsigned long)offsetof(FbApi, name))

int main(void) {
    printf("FbValue %lu\nFbApi %lu\n", (unsigned long)sizeof(FbValue), (unsigned long)sizeof(FbApi));
    MEMBER(size);
    MEMBER(version);
    MEMBER(error_new);
    MEMBER(error_kind);
    MEMBER(error_message);
    MEMBER(error_free);
    MEMBER(tensor_empty);
    MEMBER(tensor_from_blob);
    MEMBER(tensor_retain);
    MEMBER(tensor_release);
    MEMBER(tensor_dim);
    MEMBER(tensor_sizes);
    MEMBER(tensor_strides);
    MEMBER(tensor_numel);
    MEMBER(tensor_dtype);
    MEMBER(tensor_device);
    MEMBER(tensor_layout);
    MEMBER(tensor_is_contiguous);
    MEMBER(tensor_requires_grad);
    MEMBER(guard_acquire);
    MEMBER(guard_data);
    MEMBER(guard_release);
    MEMBER(operator_find);
    MEMBER(operator_name);
    MEMBER(operator_schema);
    MEMBER(operator_call);
    MEMBER(value_free);
    MEMBER(define);
    MEMBER(implement);
    MEMBER(fallback);
    MEMBER(call_operator);
    MEMBER(call_key);
    MEMBER(call_arguments);
    MEMBER(call_return);
    MEMBER(call_below);
    MEMBER(autograd);
    MEMBER(setup_arguments);
    MEMBER(setup_results);
    MEMBER(setup_save);
    MEMBER(backward_arguments);
    MEMBER(backward_saved);
    MEMBER(backward_gradients);
    MEMBER(backward_needs);
    MEMBER(backward_set_gradient);
    MEMBER(parallel_for);
    MEMBER(num_threads);
    MEMBER(log);
    MEMBER(dlpack_export);
    MEMBER(dlpack_import);
    MEMBER(tensor_grad);
    MEMBER(tensor_set_requires_grad);
    MEMBER(tensor_geometry);
    return 0;
}
