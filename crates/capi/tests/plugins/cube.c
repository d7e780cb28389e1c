/* A plug-in in C: an operator with a kernel, a derivative and shapes; one that calls others; one that fails; a list of results. */
#include "flambeau.h"

static const FbApi *fb;
static FbOperator *mul, *contiguous;

typedef struct {
    const void *from;
    void *to;
    int is_double;
} Cubes;

static void cubes(void *context, int64_t begin, int64_t end) {
    Cubes *c = (Cubes *)context;
    int64_t i;
    for (i = begin; i < end; i++) {
        if (c->is_double) {
            double x = ((const double *)c->from)[i];
            ((double *)c->to)[i] = x * x * x;
        } else {
            float x = ((const float *)c->from)[i];
            ((float *)c->to)[i] = x * x * x;
        }
    }
}

static FbValue of_tensor(FbTensor *tensor) {
    FbValue value = {FB_TENSOR, 0, {0}, {0}};
    value.as.tensor = tensor;
    return value;
}

static FbValue of_integer(uint32_t tag, int64_t integer) {
    FbValue value = {FB_NONE, 0, {0}, {0}};
    value.tag = tag;
    value.as.integer = integer;
    return value;
}

/* The elements of `dense`, cubed, in `out`. */
static FbError *fill(FbTensor *dense, FbTensor *out) {
    FbTensor *both[2];
    uint32_t access[2] = {FB_READ, FB_WRITE};
    FbGuard *guard;
    Cubes c;
    FbError *error;
    both[0] = dense;
    both[1] = out;
    error = fb->guard_acquire(both, access, 2, &guard);
    if (error) return error;
    c.from = fb->guard_data(guard, 0);
    c.to = fb->guard_data(guard, 1);
    c.is_double = fb->tensor_dtype(dense) == FB_FLOAT64;
    error = fb->parallel_for(0, fb->tensor_numel(dense), 1024, cubes, &c);
    fb->guard_release(guard);
    return error;
}

static FbError *cube(void *context, FbCall *call) {
    size_t count;
    const FbValue *arguments = fb->call_arguments(call, &count);
    FbTensor *x = arguments[0].as.tensor, *out;
    int32_t dtype = fb->tensor_dtype(x);
    FbValue dense, given[2], result;
    FbError *error;
    (void)context;
    if (dtype != FB_FLOAT32 && dtype != FB_FLOAT64)
        return fb->error_new(FB_ERROR_DTYPE, "c_plugin::cube: expected elements of float32 or float64");
    given[0] = arguments[0];
    given[1] = of_integer(FB_MEMORY_FORMAT, 0);
    error = fb->operator_call(contiguous, given, 2, &dense, 1, &count);
    if (error) return error;
    error = fb->tensor_empty(fb->tensor_sizes(x), fb->tensor_dim(x), dtype, fb->tensor_device(x), &out);
    if (!error) {
        error = fill(dense.as.tensor, out);
        result = of_tensor(out);
        if (!error) error = fb->call_return(call, &result, 1);
        fb->tensor_release(out);
    }
    fb->value_free(&dense);
    return error;
}

static FbError *shape_of_cube(void *context, FbCall *call) {
    size_t count;
    FbTensor *x = fb->call_arguments(call, &count)[0].as.tensor, *out;
    FbError *error = fb->tensor_empty(fb->tensor_sizes(x), fb->tensor_dim(x), fb->tensor_dtype(x), fb->tensor_device(x), &out);
    FbValue result;
    (void)context;
    if (error) return error;
    result = of_tensor(out);
    error = fb->call_return(call, &result, 1);
    fb->tensor_release(out);
    return error;
}

static FbError *save_input(void *context, FbSetup *setup) {
    size_t count;
    FbTensor *x = fb->setup_arguments(setup, &count)[0].as.tensor;
    (void)context;
    return fb->setup_save(setup, &x, 1);
}

/* grad * 3 * x * x, by operators, so that it has a derivative itself. `factor` is a tensor of one element. */
static FbError *backward(void *context, FbBackward *node) {
    size_t count;
    FbTensor *x = fb->backward_saved(node, &count)[0];
    FbTensor *grad = fb->backward_gradients(node, &count)[0];
    FbValue values[3], given[2];
    FbOperator *mul_scalar;
    FbError *error;
    int i, made = 0;
    (void)context;
    if (!fb->backward_needs(node, 0)) return NULL;
    error = fb->operator_find("mul.Scalar", &mul_scalar);
    if (error) return error;
    given[0] = of_tensor(x);
    given[1] = of_integer(FB_INT, 3);
    error = fb->operator_call(mul_scalar, given, 2, &values[made], 1, &count);
    for (i = 0; !error && i < 2; i++) {
        made++;
        given[0] = values[made - 1];
        given[1] = of_tensor(i == 0 ? x : grad);
        error = fb->operator_call(mul, given, 2, &values[made], 1, &count);
    }
    if (!error) {
        made++;
        error = fb->backward_set_gradient(node, 0, values[made - 1].as.tensor);
    }
    while (made > 0) fb->value_free(&values[--made]);
    return error;
}

/* self + self, and a list of both operands. */
static FbError *twice(void *context, FbCall *call) {
    size_t count;
    const FbValue *arguments = fb->call_arguments(call, &count);
    FbOperator *add;
    FbValue given[3], sum, results[2];
    FbTensor *both[2];
    FbError *error = fb->operator_find("add.Tensor", &add);
    (void)context;
    if (error) return error;
    given[0] = given[1] = arguments[0];
    given[2] = of_integer(FB_INT, 1);
    error = fb->operator_call(add, given, 3, &sum, 1, &count);
    if (error) return error;
    both[0] = both[1] = arguments[0].as.tensor;
    results[0] = sum;
    results[1] = of_integer(FB_NONE, 0);
    results[1].tag = FB_TENSORS;
    results[1].as.tensors = both;
    results[1].more.count = 2;
    error = fb->call_return(call, results, 2);
    fb->value_free(&sum);
    return error;
}

/* The number of characters of its string, plus the sum of its list, plus its number, as the values were passed. */
static FbError *count_all(void *context, FbCall *call) {
    size_t count, i;
    const FbValue *arguments = fb->call_arguments(call, &count);
    int64_t total = (int64_t)arguments[1].more.count;
    FbValue result;
    (void)context;
    if (count != 5 || arguments[1].tag != FB_STRING || arguments[2].tag != FB_INTS || arguments[4].tag != FB_NONE)
        return fb->error_new(FB_ERROR_INVALID_ARGUMENT, "c_plugin::count: arguments of other types");
    for (i = 0; i < arguments[2].more.count; i++) total += arguments[2].as.integers[i];
    total += (int64_t)arguments[3].as.number;
    result = of_integer(FB_INT, total);
    return fb->call_return(call, &result, 1);
}

static FbError *fail(void *context, FbCall *call) {
    (void)call;
    return fb->error_new(FB_ERROR_LINALG, (const char *)context);
}

/* Counts how many contexts were dropped. */
static int dropped;
static void drop(void *context) { *(int *)context += 1; }

static FbError *operators(void) {
    FbOperator *op;
    FbError *error = fb->define("c_plugin::cube(Tensor self) -> Tensor", &op);
    if (!error) error = fb->implement(op, "CPU", cube, NULL, NULL, 0);
    if (!error) error = fb->implement(op, "Meta", shape_of_cube, NULL, NULL, 0);
    if (!error) error = fb->autograd(op, save_input, backward, NULL, NULL, 0);
    if (!error) error = fb->define("c_plugin::twice(Tensor self) -> (Tensor, Tensor[])", &op);
    if (!error) error = fb->implement(op, "CompositeImplicitAutograd", twice, NULL, NULL, 0);
    if (!error) error = fb->define("c_plugin::count(Tensor self, str text, int[] list, float number, Tensor? other=None) -> int", &op);
    if (!error) error = fb->implement(op, "CompositeImplicitAutograd", count_all, NULL, NULL, 0);
    if (!error) error = fb->define("c_plugin::fail(Tensor self) -> Tensor", &op);
    if (!error) error = fb->implement(op, "CompositeImplicitAutograd", fail, (void *)"c_plugin::fail: as it says", NULL, 0);
    return error;
}

/* For programs that open this library themselves: the cube of a number, by the operator; not 0 if that fails. */
FB_EXPORT int c_plugin_cube_of(double x, double *y) {
    FbDevice cpu = {FB_CPU, -1};
    FbOperator *op;
    FbTensor *tensor;
    FbGuard *guard;
    FbValue given, made;
    uint32_t access = FB_READ;
    size_t count;
    FbError *error = fb->operator_find("c_plugin::cube", &op);
    if (!error) error = fb->tensor_from_blob(&x, NULL, NULL, 0, FB_FLOAT64, cpu, NULL, NULL, &tensor);
    if (error) goto failed;
    given = of_tensor(tensor);
    error = fb->operator_call(op, &given, 1, &made, 1, &count);
    fb->tensor_release(tensor);
    if (error) goto failed;
    error = fb->guard_acquire(&made.as.tensor, &access, 1, &guard);
    if (!error) {
        *y = *(const double *)fb->guard_data(guard, 0);
        fb->guard_release(guard);
    }
    fb->value_free(&made);
    if (!error) return 0;
failed:
    fb->log(FB_LOG_ERROR, fb->error_message(error));
    fb->error_free(error);
    return 1;
}

/* What must be refused, each with an error that is freed here. */
static FbError *refused(void) {
    FbOperator *op = NULL;
    FbTensor *tensor = NULL;
    FbDevice cpu = {FB_CPU, -1};
    int64_t negative = -1;
    FbError *errors[8];
    size_t i;
    FbError *error = fb->operator_find("c_plugin::cube", &op);
    if (error) return error;
    errors[0] = fb->operator_find("c_plugin::no_such", &op);
    errors[1] = fb->operator_find(NULL, &op);
    errors[2] = fb->tensor_empty(&negative, 1, FB_FLOAT32, cpu, &tensor);
    errors[3] = fb->tensor_empty(NULL, 0, 99, cpu, &tensor);
    errors[4] = fb->implement(op, "NoSuchKey", cube, &dropped, drop, 0);
    errors[5] = fb->implement(op, "CPU", cube, &dropped, drop, 0);
    errors[6] = fb->autograd(op, save_input, backward, &dropped, drop, 0);
    errors[7] = fb->fallback("CompositeImplicitAutograd", cube, &dropped, drop, 0);
    for (i = 0; i < 8; i++) {
        if (!errors[i]) return fb->error_new(FB_ERROR_INTERNAL, "something was accepted that must be refused");
        fb->error_free(errors[i]);
    }
    if (tensor || dropped != 4) return fb->error_new(FB_ERROR_INTERNAL, "a function that failed has written its result");
    return NULL;
}

FB_EXPORT FbError *flambeau_plugin_init(const FbApi *api) {
    FbError *error;
    fb = api;
    error = fb->operator_find("mul.Tensor", &mul);
    if (!error) error = fb->operator_find("contiguous", &contiguous);
    if (!error) error = operators();
    if (!error) error = refused();
    fb->log(FB_LOG_DEBUG, "c_plugin is loaded");
    return error;
}
