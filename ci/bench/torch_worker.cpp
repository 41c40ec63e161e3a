/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's side of compare_torch.py where Python's own cost would hide what is compared: small operators,
 * chains and the small network. The same requests as torch_worker.py; built by compare_torch.py in a temporary
 * folder.
 */
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

using run_fn = std::function<double(long)>;

static double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Call> static run_fn single(Call call) {
  return [call](long n) mutable {
    double begin = now();
    for (long i = 0; i < n; i++) call();
    return now() - begin;
  };
}

static run_fn product(int64_t m, int64_t n, int64_t k) {
  auto a = torch::randn({m, k}), b = torch::randn({k, n}), out = torch::zeros({m, n});
  return single([=]() mutable { at::mm_out(out, a, b); });
}

static run_fn dispatch(const std::string &name) {
  auto a = torch::full({1}, 1.5f), b = torch::full({1}, 1.0f);
  if (name == "add_1_nograd") return single([=] { auto r = a + b; });
  if (name == "view_1") return single([=] { auto r = a.view({1}); });
  if (name == "empty_1") return single([] { auto r = at::empty({1}); });
  if (name == "add_inplace_1") return single([=]() mutable { a.add_(b); });
  if (name == "sum_1") return single([=] { auto r = a.sum(); });
  if (name == "add_1_grad") {
    a.requires_grad_(true);
    b.requires_grad_(true);
    return single([=] { auto r = a + b; });
  }
  int64_t side = name == "mm_2x2" ? 2 : 16;
  auto m = torch::full({side, side}, 1.5f), k = torch::full({side, side}, 0.5f);
  return single([=] { auto r = at::mm(m, k); });
}

static run_fn graph(const std::string &name) {
  auto x = torch::full({1}, 1.5f), c = torch::full({1}, 1.0f);
  x.requires_grad_(true);
  if (name == "mul_backward") return single([=] { (x * c).backward(); });
  bool chain = name.rfind("chain", 0) == 0, backward = name.find("backward") != std::string::npos;
  return [=](long n) mutable {
    double total = 0.0;
    for (long i = 0; i < n; i++) {
      double begin = now();
      torch::Tensor y = x;
      for (int k = 0; k < 1000; k++) y = chain ? y * c : y + x;
      double middle = now();
      y.backward();
      double end = now();
      x.mutable_grad() = torch::Tensor();
      total += backward ? end - middle : middle - begin;
    }
    return total;
  };
}

static run_fn network(int64_t batch) {
  torch::nn::Sequential model(torch::nn::Linear(784, 128), torch::nn::ReLU(), torch::nn::Linear(128, 10));
  auto x = torch::randn({batch, 784}), target = torch::randint(10, {batch}, torch::kLong);
  auto adam = std::make_shared<torch::optim::Adam>(model->parameters());
  return single([=]() mutable {
    adam->zero_grad();
    torch::nn::functional::cross_entropy(model->forward(x), target).backward();
    adam->step();
  });
}

static run_fn make(const std::string &name) {
  if (name == "mlp_adam_batch64") return network(64);
  if (name == "mlp_adam_batch256") return network(256);
  if (name == "mm_f32_32") return product(32, 32, 32);
  if (name == "mm_f32_64x128x784") return product(64, 128, 784);
  if (name == "mm_f32_256") return product(256, 256, 256);
  for (const char *start : {"chain", "fan", "mul_backward"})
    if (name.rfind(start, 0) == 0) return graph(name);
  return dispatch(name);
}

int main(int, char **argv) {
  at::set_num_threads(std::stoi(argv[1]));
  std::string verb, name, current;
  long n = 0;
  run_fn run;
  while (std::cin >> verb >> name >> n) {
    if (name != current) run = make(current = name);
    std::printf("{\"ns\": %.3f}\n", run(n) / (double)n);
    std::fflush(stdout);
  }
  return 0;
}
