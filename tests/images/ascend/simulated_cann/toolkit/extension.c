/* SPDX-License-Identifier: Apache-2.0
 * A simulated vllm_ascend_C: a module of Python that defines the operators that upstream's own torch_binding.cpp
 * registers (the simulated compiler puts their schemas in place of SCHEMAS), and computes nothing. Without Python's
 * headers, which the tests do not need otherwise. */
struct definition {
    long references;
    void *type, *init;
    long index;
    void *copy;
    const char *name, *documentation;
    long size;
    void *methods, *slots, *traverse, *clear, *free;
};
extern void *PyModule_Create2(struct definition *, int);
extern int PyRun_SimpleStringFlags(const char *, void *);

static struct definition module = {1, 0, 0, 0, 0, "vllm_ascend_C", 0, -1};

void *PyInit_vllm_ascend_C(void) {
    PyRun_SimpleStringFlags("import torch\n"
                            "simulated = torch.library.Library('_C_ascend', 'FRAGMENT')\n"
                            "for schema in " SCHEMAS ":\n"
                            "    simulated.define(schema)\n",
                            0);
    return PyModule_Create2(&module, 1013);
}
