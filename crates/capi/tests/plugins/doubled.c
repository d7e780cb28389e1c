/* A plug-in that defines an operator which another one defines too. */
#include "flambeau.h"

FB_EXPORT FbError *flambeau_plugin_init(const FbApi *fb) {
    FbOperator *op;
    return fb->define("c_plugin::cube(Tensor self) -> Tensor", &op);
}
