/*
 * flambeau.h: the C interface of Flambeau, version 1.
 *
 * A plug-in is a shared library that includes this header, links nothing of Flambeau, and exports one function:
 *
 *     #include "flambeau.h"
 *
 *     static FbError *cube(void *context, FbCall *call) { ... }
 *
 *     FB_EXPORT FbError *flambeau_plugin_init(const FbApi *fb) {
 *         FbOperator *op;
 *         FbError *error = fb->define("mine::cube(Tensor self) -> Tensor", &op);
 *         if (!error) error = fb->implement(op, "CPU", cube, NULL, NULL, 0);
 *         return error;
 *     }
 *
 * `flambeau::load_library(path)` in Rust and `flambeau.ops.load_library(path)` in Python load it and run this function once.
 *
 * Rules
 * -----
 * - Errors are values. A function that can fail returns `FbError *`, which is NULL if it succeeded. The caller owns the error and frees
 *   it by `error_free`, or returns it from its own function. If a function fails, it has written to none of its `out` arguments.
 *   Functions that cannot fail take NULL too, and then return 0 or NULL.
 * - Handles (`FbTensor *`, ...) are opaque. A handle that a function writes to an `out` argument is owned by the caller, who releases
 *   it; every other handle is borrowed. Arguments are always borrowed by the library: it retains what it keeps.
 * - Elements are accessed only between `guard_acquire` and `guard_release`. Sizes and strides need no guard.
 * - A call has all arguments of the schema, in its order; FB_NONE stands for one that is not given.
 * - Functions of a plug-in may be called on any thread, several at once. They must not throw C++ exceptions through the library or
 *   leave by longjmp. The library catches panics of its own at each entry and returns them as errors.
 * - Nothing that was registered is ever freed while the process runs, and a library is never unloaded.
 *
 * Compatibility
 * -------------
 * The table begins with its size in bytes. Later versions only append members. A plug-in that was compiled with an older header works
 * with every newer library. A plug-in that was compiled with a newer header works with an older library if it asks, by FB_HAS, before
 * it uses a member that was added later than version 1.0:
 *
 *     if (FB_HAS(fb, dlpack_export)) { ... }
 *
 * The header is C99 and C++11.
 */
#ifndef FLAMBEAU_H
#define FLAMBEAU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface: the number that `flambeau_api` is called with. It changes only if the table is not compatible. */
#define FB_VERSION 1u

#if defined(_WIN32)
#define FB_DLL __declspec(dllexport)
#elif defined(__GNUC__)
#define FB_DLL __attribute__((visibility("default")))
#else
#define FB_DLL
#endif
#ifdef __cplusplus
#define FB_EXPORT extern "C" FB_DLL
#else
#define FB_EXPORT FB_DLL
#endif

/* Whether the table of the library that runs has a member. */
#define FB_HAS(api, member) ((api)->size >= offsetof(FbApi, member) + sizeof((api)->member))

typedef struct FbError FbError;         /* a kind and a message */
typedef struct FbTensor FbTensor;       /* a counted reference to a tensor */
typedef struct FbOperator FbOperator;   /* an operator; lives as long as the process */
typedef struct FbGuard FbGuard;         /* guards on the elements of tensors */
typedef struct FbCall FbCall;           /* a call of a kernel, while it runs */
typedef struct FbSetup FbSetup;         /* a recorded call, while it is recorded */
typedef struct FbBackward FbBackward;   /* a node of the graph, while its backward runs */
typedef struct FbGenerator FbGenerator; /* a random number generator, which is only passed on */

/* DLPack's struct, of dlpack.h (version 1.0 or later), which this header does not include. */
struct DLManagedTensorVersioned;

/* What went wrong. Unknown numbers count as FB_ERROR_INTERNAL. */
enum {
    FB_ERROR_SHAPE = 1,
    FB_ERROR_DTYPE = 2,
    FB_ERROR_DEVICE = 3,
    FB_ERROR_INDEX = 4,
    FB_ERROR_INVALID_ARGUMENT = 5,
    FB_ERROR_OVERFLOW = 6,
    FB_ERROR_OUT_OF_MEMORY = 7,
    FB_ERROR_BUSY = 8,
    FB_ERROR_ALIASING = 9,
    FB_ERROR_AUTOGRAD = 10,
    FB_ERROR_NOT_IMPLEMENTED = 11,
    FB_ERROR_LINALG = 12,
    FB_ERROR_IO = 13,
    FB_ERROR_INTERRUPTED = 14,
    FB_ERROR_INTERNAL = 15
};

/* Types of elements, by PyTorch's numbers. */
enum {
    FB_UINT8 = 0,
    FB_INT8 = 1,
    FB_INT16 = 2,
    FB_INT32 = 3,
    FB_INT64 = 4,
    FB_FLOAT16 = 5,
    FB_FLOAT32 = 6,
    FB_FLOAT64 = 7,
    FB_COMPLEX32 = 8,
    FB_COMPLEX64 = 9,
    FB_COMPLEX128 = 10,
    FB_BOOL = 11,
    FB_BFLOAT16 = 15,
    FB_FLOAT8_E5M2 = 23,
    FB_FLOAT8_E4M3FN = 24,
    FB_UINT16 = 27,
    FB_UINT32 = 28,
    FB_UINT64 = 29,
    FB_FLOAT8_E8M0FNU = 44
};

/* Kinds of devices. */
enum {
    FB_CPU = 0,
    FB_CUDA = 1,
    FB_META = 2,
    FB_PRIVATE_USE_1 = 3,
    FB_PRIVATE_USE_2 = 4,
    FB_PRIVATE_USE_3 = 5
};

/* A device; an index of -1 means the current one of its kind. */
typedef struct FbDevice {
    int32_t type;
    int32_t index;
} FbDevice;

/* What an FbValue holds, and which members say it. */
enum {
    FB_NONE = 0,             /* an argument that is not given */
    FB_TENSOR = 1,           /* as.tensor */
    FB_TENSORS = 2,          /* as.tensors[0 .. more.count] */
    FB_INT = 3,              /* as.integer */
    FB_FLOAT = 4,            /* as.number */
    FB_BOOLEAN = 5,          /* as.integer, 0 or 1 */
    FB_COMPLEX = 6,          /* as.number, more.imaginary */
    FB_INTS = 7,             /* as.integers[0 .. more.count] */
    FB_FLOATS = 8,           /* as.numbers[0 .. more.count] */
    FB_BOOLEANS = 9,         /* as.bytes[0 .. more.count], each 0 or 1 */
    FB_STRING = 10,          /* as.string[0 .. more.count], UTF-8, without a zero at its end */
    FB_SCALAR_TYPE = 11,     /* as.integer, a type of elements */
    FB_DEVICE = 12,          /* as.device */
    FB_LAYOUT = 13,          /* as.integer, 0 for strided tensors */
    FB_MEMORY_FORMAT = 14,   /* as.integer: 0 contiguous, 1 preserve, 2 channels_last, 3 channels_last_3d */
    FB_GENERATOR = 15,       /* as.generator */
    FB_OPTIONAL_TENSORS = 16,/* as FB_TENSORS, for `Tensor?[]`: an entry is NULL for a tensor that is not given */
    FB_VALUES = 17           /* as.values[0 .. more.count]: `Scalar[]` */
};

/* An argument or a result: 24 bytes. */
typedef struct FbValue {
    uint32_t tag;
    uint32_t reserved; /* 0 */
    union {
        int64_t integer;
        double number;
        FbDevice device;
        FbTensor *tensor;
        FbTensor *const *tensors;
        const int64_t *integers;
        const double *numbers;
        const uint8_t *bytes;
        const char *string;
        FbGenerator *generator;
        const struct FbValue *values;
    } as;
    union {
        double imaginary;
        size_t count;
        uint64_t bits;
    } more;
} FbValue;

/* A kernel. It reads `call_arguments`, and says its results by `call_return`. `context` is what it was registered with. */
typedef FbError *(*FbKernel)(void *context, FbCall *call);

/* Called once, when nothing needs `context` any more, on any thread. */
typedef void (*FbDrop)(void *context);

/* What a recorded call saves for its backward. */
typedef FbError *(*FbSetupFunction)(void *context, FbSetup *setup);

/* Computes the gradients of the inputs, which it gives to `backward_set_gradient`. It calls operators, so that it can be recorded and
 * differentiated itself. */
typedef FbError *(*FbBackwardFunction)(void *context, FbBackward *backward);

/* A part of a loop, from `begin` up to `end`. */
typedef void (*FbLoopBody)(void *context, int64_t begin, int64_t end);

/* For `implement`, `fallback` and `autograd`: replaces a kernel that there is, which otherwise is an error that says where both come from. */
#define FB_OVERRIDE 1u

/* For `guard_acquire`. */
#define FB_READ 0u
#define FB_WRITE 1u

/* For `log`. */
enum { FB_LOG_ERROR = 1, FB_LOG_WARNING = 2, FB_LOG_INFO = 3, FB_LOG_DEBUG = 4 };

typedef struct FbApi {
    /* The bytes of this table. */
    size_t size;
    /* FB_VERSION of the library. */
    uint32_t version;
    uint32_t reserved;

    /* ---- errors ---- */

    /* An error of that kind; copies the message, which ends with a zero. */
    FbError *(*error_new)(uint32_t kind, const char *message);
    uint32_t (*error_kind)(const FbError *error);
    /* Lives until the error is freed. */
    const char *(*error_message)(const FbError *error);
    void (*error_free)(FbError *error);

    /* ---- tensors ---- */

    /* A tensor whose elements have any values, row-major. */
    FbError *(*tensor_empty)(const int64_t *sizes, size_t dims, int32_t dtype, FbDevice device, FbTensor **out);
    /* A tensor of elements at `data`, which are not copied. `strides` is in elements, or NULL for row-major elements. `drop(context)`
     * is called when no tensor needs them any more, also if this fails; it may be NULL. */
    FbError *(*tensor_from_blob)(void *data, const int64_t *sizes, const int64_t *strides, size_t dims, int32_t dtype,
                                 FbDevice device, FbDrop drop, void *context, FbTensor **out);
    /* Another reference to the same tensor; the handle is the same. */
    FbTensor *(*tensor_retain)(const FbTensor *tensor);
    void (*tensor_release)(FbTensor *tensor);
    size_t (*tensor_dim)(const FbTensor *tensor);
    /* `tensor_dim` numbers each, which live as long as the tensor. Where another thread may resize it, all three are asked for under a
     * guard, or by `tensor_geometry`. */
    const int64_t *(*tensor_sizes)(const FbTensor *tensor);
    const int64_t *(*tensor_strides)(const FbTensor *tensor);
    int64_t (*tensor_numel)(const FbTensor *tensor);
    int32_t (*tensor_dtype)(const FbTensor *tensor);
    FbDevice (*tensor_device)(const FbTensor *tensor);
    /* 0 for strided tensors; others have no elements to guard. */
    int32_t (*tensor_layout)(const FbTensor *tensor);
    int (*tensor_is_contiguous)(const FbTensor *tensor);
    int (*tensor_requires_grad)(const FbTensor *tensor);

    /* ---- elements ---- */

    /* Guards on the elements of `count` tensors at once, for FB_READ or FB_WRITE each. Waits for other threads. It is released on the
     * thread that acquired it, before that thread calls an operator that needs the elements otherwise. Another thread may resize a
     * tensor until the guard is held: a kernel asks for sizes and strides after it. Of tensors on the CPU. */
    FbError *(*guard_acquire)(FbTensor *const *tensors, const uint32_t *access, size_t count, FbGuard **out);
    /* The address of the first element of tensor number `index`; NULL if there is no such tensor. */
    void *(*guard_data)(const FbGuard *guard, size_t index);
    void (*guard_release)(FbGuard *guard);

    /* ---- operators ---- */

    /* The operator of that name, "add.Tensor" or "mine::cube". */
    FbError *(*operator_find)(const char *name, FbOperator **out);
    /* Both end with a zero and live as long as the process. */
    const char *(*operator_name)(const FbOperator *op);
    const char *(*operator_schema)(const FbOperator *op);
    /* Calls it. Writes at most `capacity` results, which the caller owns, and their number. */
    FbError *(*operator_call)(const FbOperator *op, const FbValue *arguments, size_t count, FbValue *results, size_t capacity,
                              size_t *result_count);
    /* Releases what a result holds, and makes it FB_NONE. Not for values of the caller's own. */
    void (*value_free)(FbValue *value);

    /* ---- extensions ---- */

    /* Makes an operator of `schema`, "mine::cube(Tensor self) -> Tensor", without kernels. Calls are checked against the schema: a kernel
     * gets as many arguments as it has, each of its type or, where it is optional, FB_NONE. A list of a given length is of that length
     * or empty. An int for a `float` is passed as FB_FLOAT; a `Scalar` has the tag of any number. Where the start function fails, what it
     * has defined is undefined again. */
    FbError *(*define)(const char *schema, FbOperator **out);
    /* Registers a kernel for a dispatch key: "CPU", "CUDA", "Meta", "Autograd", "CompositeImplicitAutograd",
     * "CompositeExplicitAutograd", ..., or the name of a device. `drop` may be NULL; it is called if this fails. */
    FbError *(*implement)(const FbOperator *op, const char *key, FbKernel kernel, void *context, FbDrop drop, uint32_t flags);
    /* Registers a kernel for all operators that have no other for that key, which is none of the composite ones. `drop` as above. */
    FbError *(*fallback)(const char *key, FbKernel kernel, void *context, FbDrop drop, uint32_t flags);
    /* The operator, and the name of the key that chose this kernel. */
    const FbOperator *(*call_operator)(const FbCall *call);
    const char *(*call_key)(const FbCall *call);
    /* The arguments, which live as long as the call. */
    const FbValue *(*call_arguments)(const FbCall *call, size_t *count);
    /* The results, which are retained. Once; none where the operator returns what it wrote. */
    FbError *(*call_return)(FbCall *call, const FbValue *results, size_t count);
    /* Calls the kernel of the next lower key, and returns its results as `operator_call` does. */
    FbError *(*call_below)(const FbCall *call, const FbValue *arguments, size_t count, FbValue *results, size_t capacity,
                           size_t *result_count);

    /* ---- derivatives ---- */

    /* Gives an operator that was defined by `define` a derivative, in both modes. The inputs that have gradients are the tensors among
     * the arguments, counted through lists. `setup` may be NULL: the inputs are saved. The operator must not write its arguments. */
    FbError *(*autograd)(const FbOperator *op, FbSetupFunction setup, FbBackwardFunction backward, void *context, FbDrop drop,
                         uint32_t flags);
    /* All arguments, and the results, of the call that is recorded. */
    const FbValue *(*setup_arguments)(const FbSetup *setup, size_t *count);
    const FbValue *(*setup_results)(const FbSetup *setup, size_t *count);
    /* The tensors that the backward needs: arguments, results or others. Once. */
    FbError *(*setup_save)(FbSetup *setup, FbTensor *const *tensors, size_t count);
    /* The arguments of the call; those that are tensors are FB_NONE. */
    const FbValue *(*backward_arguments)(const FbBackward *backward, size_t *count);
    /* The saved tensors, which live as long as the backward runs. */
    FbTensor *const *(*backward_saved)(const FbBackward *backward, size_t *count);
    /* The gradient of each result that is a tensor; NULL for one that was not used. At least one is not NULL. */
    FbTensor *const *(*backward_gradients)(const FbBackward *backward, size_t *count);
    /* Whether the gradient of an input is needed. */
    int (*backward_needs)(const FbBackward *backward, size_t input);
    /* Sets it, retained. An input whose gradient is not set has none. */
    FbError *(*backward_set_gradient)(FbBackward *backward, size_t input, FbTensor *gradient);

    /* ---- threads and messages ---- */

    /* Calls `body` on parts of the range, on the threads of the library's pool, and waits. Parts begin at multiples of `grain` from
     * `begin`, and depend on nothing else, so that results do not depend on the number of threads. */
    FbError *(*parallel_for)(int64_t begin, int64_t end, int64_t grain, FbLoopBody body, void *context);
    int32_t (*num_threads)(void);
    /* Writes a line to stderr, if FLAMBEAU_LOG ("error", "warning", "info" or "debug"; by default "warning") asks for its level. */
    void (*log)(uint32_t level, const char *message);

    /* ---- added in 1.1 ---- */

    /* A tensor as DLPack's struct, which shares the elements; its consumer calls its deleter. Of strided tensors on the CPU that do not
     * require a gradient. */
    FbError *(*dlpack_export)(const FbTensor *tensor, struct DLManagedTensorVersioned **out);
    /* A tensor that shares the elements of a struct, which is consumed if this succeeds. */
    FbError *(*dlpack_import)(struct DLManagedTensorVersioned *managed, FbTensor **out);
    /* The gradient that a leaf has accumulated; NULL if it has none. */
    FbError *(*tensor_grad)(const FbTensor *tensor, FbTensor **out);
    FbError *(*tensor_set_requires_grad)(FbTensor *tensor, int requires_grad);
    /* How many dimensions it has, and its sizes and strides, which live as long as the tensor: all of one moment, even where another
     * thread resizes it meanwhile. Either `out` argument may be NULL. */
    size_t (*tensor_geometry)(const FbTensor *tensor, const int64_t **sizes, const int64_t **strides);
} FbApi;

/* The table; NULL if the library does not have that version. Programs that link Flambeau call it; a plug-in is given the table. */
const FbApi *flambeau_api(uint32_t version);

/* What a plug-in exports. Its error is that of load_library. */
FB_EXPORT FbError *flambeau_plugin_init(const FbApi *fb);

#ifdef __cplusplus
}
#endif

#endif
